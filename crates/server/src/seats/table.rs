//! Who has a seat, who waits for one, and who has to give one up.
//!
//! Seats are short when all are taken. Then whoever has the most gives one up to whoever has fewer: of
//! its connections first those at rest, and of these first those whose last answer was a denial; then
//! those that have not finished asking. If it has more than its share, also those that are answered.
//! Nobody takes a seat from a client that would have fewer than itself then, with one exception: who has
//! less than its share gets the seat that has been at rest for longest, whosever it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::client_network::ClientNetwork;
use super::client_seats::ClientSeats;
use super::queue::{SeatGrant, SeatWaiter};
use super::seat_use::SeatUse;

/// The seats of a room, and the queue in front of it.
#[derive(Debug)]
pub(super) struct SeatTable {
    pub(super) free: usize,
    pub(super) rules: SeatRules,
    seats: HashMap<u64, SeatOccupant>,
    pub(super) groups: HashMap<ClientNetwork, ClientSeats>,
    /// By how many seats they have.
    by_size: BTreeSet<(usize, ClientNetwork)>,
    /// All that rest, in the order in which they would have to leave.
    idle: BTreeSet<LeaveOrder>,
    pub(super) waiting: BTreeMap<u64, SeatWaiter>,
    next: u64,
}

/// How seats are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatRules {
    /// How many seats a client keeps, whatever it does with them.
    pub(super) share: usize,
    /// Whether that holds for this machine too.
    pub(super) is_for_all: bool,
    /// How many may wait for a seat.
    pub(super) max_waiting: usize,
}

/// A connection that has a seat.
#[derive(Debug)]
pub(super) struct SeatOccupant {
    client: Option<ClientNetwork>,
    /// When it came, or began to ask again after a rest.
    pub(super) since: Instant,
    state: SeatState,
    pub(super) work: SeatUse,
    /// Ends it, whatever it does.
    end: Option<AbortHandle>,
}

#[derive(Debug)]
enum SeatState {
    Busy,
    Idle(LeaveOrder, Waker),
    /// It was told to leave.
    Leaving,
}

/// In which order connections leave: those that were denied first, then by how long they rest.
pub(super) type LeaveOrder = (bool, Instant, u64);

/// A connection that has to leave.
#[derive(Debug)]
pub(super) enum SeatEviction {
    /// Nothing is under way on it: it leaves by itself.
    Silent(Waker),
    /// It is cut off.
    Asking(AbortHandle),
    /// The same, in the middle of an answer.
    Answered(AbortHandle),
    /// It was told before and does not leave, though nothing is answered: it is cut off.
    Late(AbortHandle),
}

impl SeatTable {
    pub(super) fn new(seats: usize, rules: SeatRules) -> Self {
        Self {
            free: seats,
            rules,
            seats: HashMap::new(),
            groups: HashMap::new(),
            by_size: BTreeSet::new(),
            idle: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// A free seat, if there is one.
    pub(super) fn take_free(&mut self, address: Option<IpAddr>) -> Option<(u64, SeatUse)> {
        self.free = self.free.checked_sub(1)?;
        self.ensure_client(address);
        Some(self.occupy(address.map(ClientNetwork::from)))
    }

    /// From now on there is a group for a client.
    pub(super) fn ensure_client(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.groups.entry(address.into()).or_insert_with(|| ClientSeats::new(address));
        }
    }

    pub(super) fn occupy(&mut self, client: Option<ClientNetwork>) -> (u64, SeatUse) {
        let (number, since, work) = (self.number(), Instant::now(), SeatUse::default());
        let standing = SeatState::Busy;
        let taken = SeatOccupant { client, since, state: standing, work: work.clone(), end: None };
        self.seats.insert(number, taken);
        self.change(client, |group| {
            group.held = group.held.saturating_add(1);
            group.asking.insert((since, number));
        });
        (number, work)
    }

    /// Changes a group, and its place among the others. A group of nobody is forgotten.
    pub(super) fn change(
        &mut self,
        client: Option<ClientNetwork>,
        change: impl FnOnce(&mut ClientSeats),
    ) {
        let Some(client) = client else { return };
        let Some(group) = self.groups.get_mut(&client) else { return };
        let before = group.held;
        change(group);
        let (after, is_empty) = (group.held, group.is_empty());
        if before != after {
            self.by_size.remove(&(before, client));
            if after > 0 {
                self.by_size.insert((after, client));
            }
        }
        if is_empty {
            self.groups.remove(&client);
        }
    }

    /// How to end a connection.
    pub(super) fn set_abort(&mut self, number: u64, end: AbortHandle) {
        if let Some(taken) = self.seats.get_mut(&number) {
            taken.end = Some(end);
        }
    }

    /// A connection is gone. Returns who gets its seat.
    pub(super) fn vacate(&mut self, number: u64) -> Option<SeatGrant> {
        let taken = self.seats.remove(&number)?;
        let SeatOccupant { client, since, state: standing, .. } = taken;
        if let SeatState::Idle(turn, _) = &standing {
            self.idle.remove(turn);
        }
        let is_held = !matches!(standing, SeatState::Leaving);
        self.change(client, |group| {
            group.forget(since, number);
            if let SeatState::Idle(turn, _) = &standing {
                group.idle.remove(turn);
            }
            group.held = group.held.saturating_sub(usize::from(is_held));
        });
        self.free = self.free.saturating_add(1);
        self.grant()
    }

    /// Has somebody leave for who waits under this number. `speaks_for_many` knows proxies.
    pub(super) fn evict_for(
        &mut self,
        waiting: u64,
        speaks_for_many: &dyn Fn(IpAddr) -> bool,
    ) -> Option<SeatEviction> {
        let SeatWaiter { client, evicted: asked, .. } = self.waiting.get_mut(&waiting)?;
        if let Some(end) =
            asked.and_then(|number| self.seats.get(&number)).and_then(SeatOccupant::overdue_abort)
        {
            return Some(SeatEviction::Late(end));
        }
        let (client, asked) = (*client, asked.take());
        self.change(client, |group| group.remove_claim(asked));
        let now = Instant::now();
        let number = self.choose_evicted(client, now, speaks_for_many)?;
        let leaver = self.evict(number)?;
        if let Some(waiting) = self.waiting.get_mut(&waiting) {
            waiting.evicted = Some(number);
        }
        self.change(client, |group| group.claims = group.claims.saturating_add(1));
        Some(leaver)
    }

    /// Who has to leave for a client.
    fn choose_evicted(
        &mut self,
        client: Option<ClientNetwork>,
        now: Instant,
        speaks_for_many: &dyn Fn(IpAddr) -> bool,
    ) -> Option<u64> {
        let group = client.and_then(|client| self.groups.get(&client));
        let own = group.map_or(0, |group| group.held.saturating_add(group.claims));
        let has_more = |(held, _): &&(usize, ClientNetwork)| *held >= own.saturating_add(2);
        let larger: Vec<_> =
            self.by_size.iter().rev().take_while(has_more).take(MAX_LOOKS).copied().collect();
        for (held, other) in larger {
            let is_above = held > self.rules.share && self.has_share(other, speaks_for_many);
            let seats = &self.seats;
            let group = self.groups.get_mut(&other);
            if let Some(number) = group.and_then(|it| it.seat_to_evict(seats, now, is_above)) {
                return Some(number);
            }
        }
        let is_within = own < self.rules.share
            || client.is_none_or(|client| !self.has_share(client, speaks_for_many));
        let group = client.and_then(|client| self.groups.get(&client));
        let resting = match group {
            Some(group) if !is_within => &group.idle,
            _ => &self.idle,
        };
        first_evictable(resting, now)
    }

    /// Whether a client speaks for itself alone.
    fn has_share(&self, client: ClientNetwork, speaks_for_many: &dyn Fn(IpAddr) -> bool) -> bool {
        let is_proxy = self.groups.get(&client).is_some_and(|it| speaks_for_many(it.address));
        !is_proxy && (self.rules.is_for_all || !client.is_local())
    }

    /// Takes a seat away.
    fn evict(&mut self, number: u64) -> Option<SeatEviction> {
        let taken = self.seats.get_mut(&number)?;
        // A connection that is at work, and that nobody can end yet, keeps its seat.
        if !matches!(taken.state, SeatState::Idle(..)) && taken.end.is_none() {
            return None;
        }
        let (client, since) = (taken.client, taken.since);
        let before = std::mem::replace(&mut taken.state, SeatState::Leaving);
        let is_answered = taken.work.is_served();
        let end = taken.end.clone();
        self.change(client, |group| {
            group.forget(since, number);
            if let SeatState::Idle(turn, _) = &before {
                group.idle.remove(turn);
            }
            group.held = group.held.saturating_sub(1);
        });
        match before {
            SeatState::Idle(turn, waker) => {
                self.idle.remove(&turn);
                Some(SeatEviction::Silent(waker))
            }
            _ if is_answered => end.map(SeatEviction::Answered),
            _ => end.map(SeatEviction::Asking),
        }
    }

    /// Nothing is under way on a connection. From `from` on its seat may be wanted.
    pub(super) fn mark_idle(&mut self, number: u64, from: Instant) {
        let Some(taken) = self.seats.get_mut(&number) else { return };
        if matches!(taken.state, SeatState::Leaving) {
            return;
        }
        let (client, since) = (taken.client, taken.since);
        taken.work.mark_waiting();
        let turn = (!taken.work.is_denied(), from, number);
        taken.state = SeatState::Idle(turn, Waker::noop().clone());
        self.idle.insert(turn);
        self.change(client, |group| {
            group.forget(since, number);
            group.idle.insert(turn);
        });
    }

    /// Whether a connection that rests has to leave; if not, `waker` is woken when it has to.
    pub(super) fn is_wanted(&mut self, number: u64, waker: &Waker) -> bool {
        match self.seats.get_mut(&number).map(|taken| &mut taken.state) {
            Some(SeatState::Idle(_, before)) => {
                before.clone_from(waker);
                false
            }
            Some(SeatState::Busy) => false,
            Some(SeatState::Leaving) | None => true,
        }
    }

    /// Something is under way again. Returns whether the connection has to leave after that.
    pub(super) fn mark_busy(&mut self, number: u64) -> bool {
        let Some(taken) = self.seats.get_mut(&number) else { return true };
        let turn = match &taken.state {
            SeatState::Leaving => return true,
            SeatState::Busy => return false,
            SeatState::Idle(turn, _) => *turn,
        };
        taken.state = SeatState::Busy;
        taken.since = Instant::now();
        let (client, since) = (taken.client, taken.since);
        self.idle.remove(&turn);
        self.change(client, |group| {
            group.idle.remove(&turn);
            group.asking.insert((since, number));
        });
        false
    }
}

impl SeatOccupant {
    /// How to end it, if it was told to leave and answers nothing.
    fn overdue_abort(&self) -> Option<AbortHandle> {
        let is_told = matches!(self.state, SeatState::Leaving);
        self.end.clone().filter(|_| is_told && !self.work.is_served())
    }
}

/// The first connection whose time has come. Of all that rest it looks at two, the first of those that were
/// denied and the first of the others, so that it takes no longer the more there are.
fn first_evictable(resting: &BTreeSet<LeaveOrder>, now: Instant) -> Option<u64> {
    let behind_denied = Bound::Excluded((false, now + LONGEST_GRACE, u64::MAX));
    let first_other = resting.range((behind_denied, Bound::Unbounded)).next();
    let mut firsts = [resting.first(), first_other].into_iter().flatten();
    firsts.find(|(_, from, _)| *from <= now).map(|(_, _, number)| *number)
}

/// Nobody rests for so long before its seat may be wanted.
const LONGEST_GRACE: Duration = Duration::from_secs(86_400);
/// How many clients are looked at for a seat.
const MAX_LOOKS: usize = 8;
