//! One published message, encoded once for all who get it.

use std::sync::Arc;
use std::sync::OnceLock;

use resp::{Encoder, Proto};

use super::Space;

/// A message as subscribers of one kind get it.
pub struct Published {
    /// What they have subscribed to: the channel, or a pattern.
    pub name: Box<[u8]>,
    /// The space of that name.
    pub space: Space,
    encoded: [OnceLock<Arc<[u8]>>; 2],
}

/// A published message on its way to a worker.
pub struct Publication {
    /// Its channel.
    pub channel: Box<[u8]>,
    /// The message.
    pub message: Box<[u8]>,
    /// To whom: the subscribers of the channel, then those of each pattern that it fits.
    pub to: Vec<Published>,
}

impl Published {
    /// For the subscribers of `name`.
    pub fn new(space: Space, name: &[u8]) -> Published {
        Published { name: name.into(), space, encoded: Default::default() }
    }

    /// The bytes that a connection of this protocol version is sent.
    pub fn bytes(&self, publication: &Publication, proto: Proto) -> &Arc<[u8]> {
        self.encoded[usize::from(proto == Proto::V3)].get_or_init(|| {
            let mut bytes = Vec::with_capacity(publication.channel.len() + publication.message.len() + 64);
            let mut out = Encoder::new(&mut bytes, proto);
            match self.space {
                Space::Pattern | Space::NodePattern => {
                    out.push(4);
                    out.bulk(b"pmessage");
                    out.bulk(&self.name);
                }
                Space::Channel | Space::NodeChannel => {
                    out.push(3);
                    out.bulk(b"message");
                }
                Space::Shard => {
                    out.push(3);
                    out.bulk(b"smessage");
                }
            }
            out.bulk(&publication.channel);
            out.bulk(&publication.message);
            bytes.into()
        })
    }
}
