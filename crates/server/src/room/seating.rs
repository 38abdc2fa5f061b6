//! Who has a seat, who waits for one, and who has to give one up.
//!
//! Seats are short when all are taken. Then whoever has the most gives one up to whoever has fewer: of
//! its connections first those at rest, and of these first those whose last answer was a denial; then
//! those that have not finished asking. If it has more than its share, also those that are answered.
//! Nobody takes a seat from a client that would have fewer than itself then, with one exception: who has
//! less than its share gets the seat that has been at rest for longest, whosever it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::task::Waker;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::client::ClientNetwork;
use super::group::Group;
use super::seat_use::SeatUse;

/// The seats of a room, and the queue in front of it.
#[derive(Debug)]
pub(super) struct Seating {
    pub(super) free: usize,
    rules: Rules,
    seats: HashMap<u64, Taken>,
    groups: HashMap<ClientNetwork, Group>,
    /// By how many seats they have.
    by_size: BTreeSet<(usize, ClientNetwork)>,
    /// All that rest, in the order in which they would have to leave.
    resting: BTreeSet<Turn>,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
}

/// How seats are shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// How many seats a client keeps, whatever it does with them.
    pub(super) share: usize,
    /// Whether that holds for this machine too.
    pub(super) is_for_all: bool,
    /// How many may wait for a seat.
    pub(super) max_waiting: usize,
}

/// A connection that has a seat.
#[derive(Debug)]
pub(super) struct Taken {
    client: Option<ClientNetwork>,
    /// When it came, or began to ask again after a rest.
    pub(super) since: Instant,
    standing: Standing,
    pub(super) work: SeatUse,
    /// Ends it, whatever it does.
    end: Option<AbortHandle>,
}

#[derive(Debug)]
enum Standing {
    AtWork,
    Resting(Turn, Waker),
    /// It was told to leave.
    Leaving,
}

/// In which order connections leave: those that were denied first, then by how long they rest.
pub(super) type Turn = (bool, Instant, u64);

/// Somebody without a seat.
#[derive(Debug)]
struct Waiting {
    client: Option<ClientNetwork>,
    seat: oneshot::Sender<(u64, SeatUse)>,
    /// When somebody was told to leave for it.
    asked: Option<Instant>,
}

/// A connection that has to leave.
#[derive(Debug)]
pub(super) enum Leaver {
    /// Nothing is under way on it: it leaves by itself.
    Silent(Waker),
    /// It is cut off.
    Asking(AbortHandle),
    /// The same, in the middle of an answer.
    Answered(AbortHandle),
}

/// A seat for somebody who has waited for it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) number: u64,
    pub(super) work: SeatUse,
    pub(super) to: oneshot::Sender<(u64, SeatUse)>,
}

impl Seating {
    pub(super) fn new(seats: usize, rules: Rules) -> Self {
        Self {
            free: seats,
            rules,
            seats: HashMap::new(),
            groups: HashMap::new(),
            by_size: BTreeSet::new(),
            resting: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// A free seat, if there is one.
    pub(super) fn take_free(&mut self, address: Option<IpAddr>) -> Option<(u64, SeatUse)> {
        self.free = self.free.checked_sub(1)?;
        self.known(address);
        Some(self.sit(address.map(ClientNetwork::from)))
    }

    /// From now on there is a group for a client.
    fn known(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.groups.entry(address.into()).or_insert_with(|| Group::new(address));
        }
    }

    fn sit(&mut self, client: Option<ClientNetwork>) -> (u64, SeatUse) {
        let (number, since, work) = (self.number(), Instant::now(), SeatUse::default());
        let standing = Standing::AtWork;
        let taken = Taken { client, since, standing, work: work.clone(), end: None };
        self.seats.insert(number, taken);
        self.change(client, |group| {
            group.held = group.held.saturating_add(1);
            group.asking.insert((since, number));
        });
        (number, work)
    }

    /// Changes a group, and its place among the others. A group of nobody is forgotten.
    fn change(&mut self, client: Option<ClientNetwork>, change: impl FnOnce(&mut Group)) {
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
    pub(super) fn ends_by(&mut self, number: u64, end: AbortHandle) {
        if let Some(taken) = self.seats.get_mut(&number) {
            taken.end = Some(end);
        }
    }

    /// A connection is gone. Returns who gets its seat.
    pub(super) fn leave(&mut self, number: u64) -> Option<Grant> {
        let taken = self.seats.remove(&number)?;
        let Taken { client, since, standing, .. } = taken;
        if let Standing::Resting(turn, _) = &standing {
            self.resting.remove(turn);
        }
        let is_held = !matches!(standing, Standing::Leaving);
        self.change(client, |group| {
            group.forget(since, number);
            if let Standing::Resting(turn, _) = &standing {
                group.resting.remove(turn);
            }
            group.held = group.held.saturating_sub(usize::from(is_held));
        });
        self.free = self.free.saturating_add(1);
        self.grant()
    }

    /// A free seat goes to whoever has the fewest, and of these to the first.
    pub(super) fn grant(&mut self) -> Option<Grant> {
        if self.free == 0 {
            return None;
        }
        let seats =
            |it: &Waiting| it.client.and_then(|it| self.groups.get(&it)).map_or(0, |it| it.held);
        let first =
            self.waiting.iter().min_by_key(|(id, it)| (seats(it), **id)).map(|(id, _)| *id)?;
        let Waiting { client, seat, asked } = self.waiting.remove(&first)?;
        self.free = self.free.saturating_sub(1);
        let (number, work) = self.sit(client);
        self.change(client, |group| group.waits_no_more(asked));
        Some(Grant { number, work, to: seat })
    }

    /// Waits for a seat. Returns under which number, unless others with fewer seats fill the queue.
    pub(super) fn queue(
        &mut self,
        address: Option<IpAddr>,
        seat: oneshot::Sender<(u64, SeatUse)>,
    ) -> Option<u64> {
        let client = address.map(ClientNetwork::from);
        if self.waiting.len() >= self.rules.max_waiting && !self.shorten(client) {
            return None;
        }
        self.known(address);
        self.change(client, |group| group.waiting = group.waiting.saturating_add(1));
        let number = self.number();
        self.waiting.insert(number, Waiting { client, seat, asked: None });
        Some(number)
    }

    /// Sends away who came last of the client that has the most, if that is more than `client` has.
    fn shorten(&mut self, client: Option<ClientNetwork>) -> bool {
        let mut sizes: HashMap<Option<ClientNetwork>, usize> = HashMap::new();
        for waiting in self.waiting.values() {
            let size = sizes.entry(waiting.client).or_insert_with(|| self.held(waiting.client));
            *size = size.saturating_add(1);
        }
        let size = |client: &Option<ClientNetwork>| sizes.get(client).copied().unwrap_or(0);
        let own = size(&client).max(self.held(client)).saturating_add(1);
        let most = self.waiting.iter().max_by_key(|(id, it)| (size(&it.client), **id));
        let Some(id) = most.filter(|(_, it)| size(&it.client) > own).map(|(id, _)| *id) else {
            return false;
        };
        self.stop_waiting(id);
        true
    }

    fn held(&self, client: Option<ClientNetwork>) -> usize {
        client.and_then(|client| self.groups.get(&client)).map_or(0, |group| group.held)
    }

    /// Somebody does not wait any more.
    pub(super) fn stop_waiting(&mut self, number: u64) {
        if let Some(Waiting { client, asked, .. }) = self.waiting.remove(&number) {
            self.change(client, |group| group.waits_no_more(asked));
        }
    }

    /// Has somebody leave for who waits under this number. `speaks_for_many` knows proxies.
    pub(super) fn ask(
        &mut self,
        waiting: u64,
        speaks_for_many: &dyn Fn(IpAddr) -> bool,
    ) -> Option<Leaver> {
        let Waiting { client, asked, .. } = self.waiting.get_mut(&waiting)?;
        let (client, asked) = (*client, asked.take());
        self.change(client, |group| group.claim_ends(asked));
        let now = Instant::now();
        let number = self.choose(client, now, speaks_for_many)?;
        let leaver = self.tell(number)?;
        if let Some(waiting) = self.waiting.get_mut(&waiting) {
            waiting.asked = Some(now);
        }
        self.change(client, |group| group.claims = group.claims.saturating_add(1));
        Some(leaver)
    }

    /// Who has to leave for a client.
    fn choose(
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
            if let Some(number) = group.and_then(|it| it.gives_up(seats, now, is_above)) {
                return Some(number);
            }
        }
        let is_within = own < self.rules.share
            || client.is_none_or(|client| !self.has_share(client, speaks_for_many));
        let group = client.and_then(|client| self.groups.get(&client));
        let resting = match group {
            Some(group) if !is_within => &group.resting,
            _ => &self.resting,
        };
        resting.iter().find(|(_, from, _)| *from <= now).map(|(_, _, number)| *number)
    }

    /// Whether a client speaks for itself alone.
    fn has_share(&self, client: ClientNetwork, speaks_for_many: &dyn Fn(IpAddr) -> bool) -> bool {
        let is_proxy = self.groups.get(&client).is_some_and(|it| speaks_for_many(it.address));
        !is_proxy && (self.rules.is_for_all || !client.is_local())
    }

    /// Takes a seat away.
    fn tell(&mut self, number: u64) -> Option<Leaver> {
        let taken = self.seats.get_mut(&number)?;
        let (client, since) = (taken.client, taken.since);
        let before = std::mem::replace(&mut taken.standing, Standing::Leaving);
        let is_answered = taken.work.is_served();
        let end = taken.end.clone();
        self.change(client, |group| {
            group.forget(since, number);
            if let Standing::Resting(turn, _) = &before {
                group.resting.remove(turn);
            }
            group.held = group.held.saturating_sub(1);
        });
        match before {
            Standing::Resting(turn, waker) => {
                self.resting.remove(&turn);
                Some(Leaver::Silent(waker))
            }
            _ if is_answered => end.map(Leaver::Answered),
            _ => end.map(Leaver::Asking),
        }
    }

    /// Nothing is under way on a connection. From `from` on its seat may be wanted.
    pub(super) fn rest(&mut self, number: u64, from: Instant) {
        let Some(taken) = self.seats.get_mut(&number) else { return };
        if matches!(taken.standing, Standing::Leaving) {
            return;
        }
        let (client, since) = (taken.client, taken.since);
        let turn = (!taken.work.is_denied(), from, number);
        taken.standing = Standing::Resting(turn, Waker::noop().clone());
        self.resting.insert(turn);
        self.change(client, |group| {
            group.forget(since, number);
            group.resting.insert(turn);
        });
    }

    /// Whether a connection that rests has to leave; if not, `waker` is woken when it has to.
    pub(super) fn is_wanted(&mut self, number: u64, waker: &Waker) -> bool {
        match self.seats.get_mut(&number).map(|taken| &mut taken.standing) {
            Some(Standing::Resting(_, before)) => {
                before.clone_from(waker);
                false
            }
            Some(Standing::AtWork) => false,
            Some(Standing::Leaving) | None => true,
        }
    }

    /// Something is under way again. Returns whether the connection has to leave after that.
    pub(super) fn stir(&mut self, number: u64) -> bool {
        let Some(taken) = self.seats.get_mut(&number) else { return true };
        let turn = match &taken.standing {
            Standing::Leaving => return true,
            Standing::AtWork => return false,
            Standing::Resting(turn, _) => *turn,
        };
        taken.standing = Standing::AtWork;
        taken.work.waits();
        taken.since = Instant::now();
        let (client, since) = (taken.client, taken.since);
        self.resting.remove(&turn);
        self.change(client, |group| {
            group.resting.remove(&turn);
            group.asking.insert((since, number));
        });
        false
    }
}

/// How many clients are looked at for a seat.
const MAX_LOOKS: usize = 8;
