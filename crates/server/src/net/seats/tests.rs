//! Which connections are evicted, which wait, and which are refused when all seats are taken.

use std::future::{pending, poll_fn};

use tokio::sync::watch;
use tokio::time::{advance, sleep, timeout};

use super::request::LEAVING;
use super::*;

const ATTACKER: &str = "192.0.2.1";
const OTHER: &str = "198.51.100.7";

fn pool(seats: usize) -> Arc<SeatPool> {
    Arc::new(SeatPool::new(&ListenerConfig { max_connections: seats, ..ListenerConfig::default() }))
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn seat(pool: &Arc<SeatPool>, client: &str) -> Seat {
    let SeatOutcome::Seated(guard) = pool.request_seat(address(client)) else {
        panic!("no seat for {client}")
    };
    Seat::new(watch::channel(false).1, guard)
}

fn seats(pool: &Arc<SeatPool>, client: &str, count: usize) -> Vec<Seat> {
    (0..count).map(|_| seat(pool, client)).collect()
}

fn ticket(pool: &Arc<SeatPool>, client: &str) -> SeatRequest {
    let SeatOutcome::Queued(ticket) = pool.request_seat(address(client)) else {
        panic!("for {client}")
    };
    ticket
}

async fn is_wanted(rest: &mut IdleSeat) -> bool {
    poll_fn(|cx| Poll::Ready(rest.poll_wanted(cx).is_ready())).await
}

/// A connection that holds its seat until it is cut off.
fn connection(pool: &Arc<SeatPool>, client: &str, is_served: bool) -> tokio::task::JoinHandle<()> {
    let seat = seat(pool, client);
    let number = seat.guard.number();
    if is_served {
        seat.work().mark_served();
    }
    let task = tokio::spawn(async move {
        let _seat = seat;
        pending::<()>().await;
    });
    pool.set_abort(number, task.abort_handle());
    task
}

/// Whether a newcomer gets a seat before a second is over.
async fn is_let_in(pool: &Arc<SeatPool>, client: &str) -> Option<SeatGuard> {
    timeout(Duration::from_secs(1), ticket(pool, client).seat()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn only_the_longest_idle_connection_is_evicted() {
    let pool = pool(3);
    let seats = seats(&pool, ATTACKER, 3);
    let now = Instant::now();
    let mut younger = seats[0].idle(now);
    let mut oldest = seats[1].idle(now - QUIET);
    let mut new = seats[2].idle(now - QUIET + GRACE);
    let newcomers = [0, 1, 2].map(|_| ticket(&pool, ATTACKER));
    assert!(pool.evict_one(newcomers[0].number));
    assert!(is_wanted(&mut oldest).await);
    assert!(!is_wanted(&mut younger).await && !is_wanted(&mut new).await);
    // It became busy at the same moment, and learns that it was evicted.
    assert!(oldest.end());
    assert!(!younger.end());
    assert!(!pool.evict_one(newcomers[1].number));
    advance(GRACE).await;
    assert!(pool.evict_one(newcomers[2].number) && is_wanted(&mut new).await);
    assert_eq!(pool.evictions(EvictionKind::Silent), 2);
}

#[tokio::test(start_paused = true)]
async fn attack_07_a_denied_connection_is_evicted_first() {
    let pool = pool(3);
    let seats = seats(&pool, ATTACKER, 3);
    let now = Instant::now();
    let mut rests = Vec::new();
    for (seat, was_denied) in seats.iter().zip([false, true, false]) {
        seat.work().set_denied(was_denied);
        rests.push(seat.idle(now - QUIET));
        advance(QUIET).await;
    }
    assert!(pool.evict_one(ticket(&pool, OTHER).number));
    assert!(is_wanted(&mut rests[1]).await);
    assert!(!is_wanted(&mut rests[0]).await && !is_wanted(&mut rests[2]).await);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_waits_for_a_seat_and_has_one_leave_for_it() {
    let pool = pool(2);
    let mut taken = seats(&pool, ATTACKER, 2);
    let newcomer = async { ticket(&pool, ATTACKER).seat().await.unwrap() };
    let others = async {
        // All connections are busy.
        sleep(LEAVING * 3).await;
        assert_eq!(pool.evictions(EvictionKind::Silent), 0);
        let mut rest = taken[1].idle(Instant::now());
        poll_fn(|cx| rest.poll_wanted(cx)).await;
        drop((rest, taken.pop()));
    };
    let (seat, ()) = tokio::join!(newcomer, others);
    assert_eq!(pool.evictions(EvictionKind::Silent), 1);
    drop((seat, taken));
    assert_eq!(pool.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn attack_07_who_has_not_finished_asking_makes_way_for_a_client_that_has_fewer() {
    let pool = pool(50);
    let halves: Vec<_> = (0..50).map(|_| connection(&pool, ATTACKER, false)).collect();
    let seat = is_let_in(&pool, OTHER).await;
    assert!(seat.is_some());
    assert_eq!(pool.evictions(EvictionKind::Asking), 1);
    assert!(halves[0].is_finished());
    // The same client does not evict its own connections.
    assert!(is_let_in(&pool, ATTACKER).await.is_none());
    // Both clients end up with equally many seats, and then evict each other no more.
    let mut others = vec![seat];
    for _ in 0..24 {
        others.push(is_let_in(&pool, OTHER).await);
        assert!(others.last().unwrap().is_some());
    }
    assert!(is_let_in(&pool, OTHER).await.is_none());
    assert!(is_let_in(&pool, ATTACKER).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn attack_07_beyond_its_share_a_client_keeps_no_seat_by_being_busy() {
    let pool = pool(50);
    let busy: Vec<_> = (0..50).map(|_| connection(&pool, ATTACKER, true)).collect();
    let mut others = Vec::new();
    while let Some(seat) = is_let_in(&pool, OTHER).await {
        others.push(seat);
    }
    // Until both have equally many.
    assert_eq!((others.len(), pool.evictions(EvictionKind::Answered)), (25, 25));
    assert!(busy[0].is_finished() && !busy[49].is_finished());
}

#[tokio::test(start_paused = true)]
async fn attack_07_who_is_told_to_leave_and_does_not_is_cut_off() {
    let pool = pool(2);
    // Marked as idle, but they do not react: half of an HTTP/2 head has arrived.
    let deaf: Vec<_> = (0..2)
        .map(|_| {
            let seat = seat(&pool, ATTACKER);
            let number = seat.guard.number();
            let task = tokio::spawn(async move {
                let _rest = seat.idle(Instant::now());
                pending::<()>().await;
            });
            pool.set_abort(number, task.abort_handle());
            task
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(timeout(LEAVING * 2, ticket(&pool, OTHER).seat()).await.unwrap().is_some());
    assert_eq!(deaf.iter().filter(|it| it.is_finished()).count(), 1);
    assert_eq!(
        (pool.evictions(EvictionKind::Silent), pool.evictions(EvictionKind::Asking)),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn within_its_share_nobody_who_is_answered_is_cut_off() {
    let pool = pool(8);
    let busy: Vec<_> = (0..8).map(|_| connection(&pool, ATTACKER, true)).collect();
    assert!(is_let_in(&pool, OTHER).await.is_none());
    assert!(busy.iter().all(|it| !it.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn trusted_proxies_have_no_share_of_seats() {
    for proxy in ["127.0.0.1", "::1", "10.0.0.9"] {
        let pool = pool(50);
        pool.set_trusted_proxies(|address| address.to_string().starts_with("10."));
        let busy: Vec<_> = (0..50).map(|_| connection(&pool, proxy, true)).collect();
        assert!(is_let_in(&pool, OTHER).await.is_none(), "{proxy}");
        assert!(busy.iter().all(|it| !it.is_finished()));
    }
    // Unless the share is configured explicitly.
    let config = ListenerConfig {
        max_connections: 50,
        max_connections_per_client: Some(10),
        ..ListenerConfig::default()
    };
    let pool = Arc::new(SeatPool::new(&config));
    let _busy: Vec<_> = (0..50).map(|_| connection(&pool, "127.0.0.1", true)).collect();
    assert!(is_let_in(&pool, "127.0.0.2").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn attack_07_who_has_its_share_takes_no_seat_from_those_who_have_less() {
    let pool = pool(20);
    let _busy: Vec<_> = (0..10).map(|_| connection(&pool, ATTACKER, true)).collect();
    let silent: Vec<_> = (0..10).map(|it| seat(&pool, &format!("203.0.113.{it}"))).collect();
    let from = Instant::now();
    let mut rests: Vec<_> = silent.iter().map(|seat| seat.idle(from)).collect();
    assert!(is_let_in(&pool, ATTACKER).await.is_none());
    for rest in &mut rests {
        assert!(!is_wanted(rest).await);
    }
    // Another client gets a seat from the client that has the most.
    assert!(is_let_in(&pool, "203.0.113.3").await.is_some());
    assert_eq!(pool.evictions(EvictionKind::Answered), 1);
}

#[tokio::test(start_paused = true)]
async fn attack_07_the_queue_for_a_seat_belongs_to_no_client() {
    let pool = pool(8);
    let _busy: Vec<_> = (0..8).map(|_| connection(&pool, ATTACKER, true)).collect();
    let mut queue: Vec<_> = (0..8).map(|_| ticket(&pool, ATTACKER)).collect();
    assert!(matches!(pool.request_seat(address(ATTACKER)), SeatOutcome::Refused));
    let mut other = ticket(&pool, OTHER);
    // The attacker's last waiter was dropped, and is notified.
    let last = queue.pop().unwrap();
    assert!(last.seat().await.is_none());
    assert_eq!(pool.refused(), 2);
    // The next seat goes to the client that has none.
    _busy[3].abort();
    assert!((&mut other.granted).await.is_ok());
    drop(queue);
}

#[tokio::test(start_paused = true)]
async fn a_seat_is_never_lost() {
    let pool = pool(3);
    for round in 0..50_u64 {
        let held = seats(&pool, ATTACKER, 3);
        let waiting: Vec<_> = (0..4).map(|_| ticket(&pool, OTHER)).collect();
        let tasks: Vec<_> = waiting
            .into_iter()
            .map(|ticket| tokio::spawn(timeout(Duration::from_millis(round % 7), ticket.seat())))
            .collect();
        sleep(Duration::from_millis(round % 5)).await;
        drop(held);
        for task in tasks {
            drop(task.await);
        }
        assert_eq!(pool.taken(), 0, "{round}");
        let seating = format!("{:?}", pool.seating.lock());
        assert!(seating.contains("groups: {}"), "{seating}");
    }
}
