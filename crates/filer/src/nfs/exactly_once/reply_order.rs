//! Chooses the stored reply that is dropped for a new one: the oldest of the client that has the most. So no client displaces the replies
//! of another.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Replies in the order in which they were stored, for each client.
#[derive(Debug)]
pub(super) struct ReplyOrder<T> {
    of: HashMap<IpAddr, VecDeque<T>>, // no queue is empty
    count: usize,
}

impl<T> Default for ReplyOrder<T> {
    fn default() -> Self {
        Self { of: HashMap::new(), count: 0 }
    }
}

impl<T> ReplyOrder<T> {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, client: IpAddr, reply: T) {
        self.of.entry(client).or_default().push_back(reply);
        self.count += 1;
    }

    /// Removes the reply that makes room for a new one of `client`.
    pub(super) fn pop_for(&mut self, client: IpAddr) -> Option<T> {
        let own = self.of.get(&client).map_or(0, VecDeque::len);
        // A client that has its share loses one of its own replies, so that those of the others need not be counted.
        let from = if own > 0 && own * self.of.len() >= self.count {
            client
        } else {
            *self.of.iter().max_by_key(|(_, replies)| replies.len())?.0
        };
        let replies = self.of.get_mut(&from)?;
        let reply = replies.pop_front();
        if replies.is_empty() {
            self.of.remove(&from);
        }
        self.count -= usize::from(reply.is_some());
        reply
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_client_with_the_most_replies_gives_its_oldest() {
        let client = |host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host));
        let mut order = ReplyOrder::default();
        assert_eq!(order.pop_for(client(1)), None);
        (0..6).for_each(|number| order.push(client(1), number));
        order.push(client(2), 10);
        assert_eq!(order.pop_for(client(2)), Some(0), "it has less than its share");
        assert_eq!(order.pop_for(client(1)), Some(1));
        assert_eq!(order.pop_for(client(3)), Some(2), "it has no reply");
        (11..14).for_each(|number| order.push(client(2), number));
        assert_eq!(order.pop_for(client(2)), Some(10));
        assert_eq!(std::iter::from_fn(|| order.pop_for(client(3))).count(), 6);
        assert_eq!((order.len(), order.of.len()), (0, 0));
    }
}
