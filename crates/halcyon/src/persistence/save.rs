//! Writing a snapshot: threads that encode it, and this one, which writes what they have to one file.
//!
//! The file has another name until it is whole and safe; then it takes the place of the one before.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use engine::persistence::saving::Save;
use engine::server::Server;
use journal::storage::{Storage, StoredFile, append_all};
use rdb::{Piece, crc64};
use store::Locked;

use super::delay;
use crate::courtesy;
use crate::machine::usable_cpus;

/// Bytes of a piece, and pieces of each encoder that wait to be written. Making or writing one takes 100 to 200 us, after
/// which whoever serves clients may have the CPU.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES_WAITING: usize = 16;
/// Bytes after which what was written goes to the disk, so that the end has not all of it to wait for, and the kernel
/// never more than this to hand to the disk at once, which it does without a pause.
const SYNC_BYTES: u64 = 4 << 20;

/// What says whether a file of its own is synced on the way.
const SYNC_DIRECTIVE: &str = "rdb-save-incremental-fsync";

/// Writes `save` to the file `path`. All of it is walked, whatever the disk says.
pub fn save(server: &Server, save: &Save, storage: &dyn Storage, path: &Path) -> Result<(), String> {
    replace(storage, path, |temporary| write(server, save, storage, temporary, SYNC_DIRECTIVE))
}

/// As [`save`], on this thread alone, which holds every stripe.
pub fn save_held(
    server: &Server,
    save: &Save,
    held: &mut Locked<'_>,
    storage: &dyn Storage,
    path: &Path,
) -> Result<(), String> {
    replace(storage, path, |temporary| {
        let mut output = Output::new(server, storage.create(temporary), SYNC_DIRECTIVE);
        enclose(server, save, &mut |bytes| output.append(bytes), |give| {
            let (mut encoder, mut piece) = (save.encoder(server), Piece::Whole);
            while piece != Piece::Last {
                let mut bytes = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
                piece = encoder.fill_held(held, &mut bytes, PIECE_BYTES);
                give(&bytes);
            }
        });
        output.finish()
    })
}

/// Puts what `write` makes in the place of a file, once it is safe.
fn replace(
    storage: &dyn Storage,
    path: &Path,
    write: impl FnOnce(&Path) -> journal::storage::Result<()>,
) -> Result<(), String> {
    let temporary = path.with_file_name(format!("temp-{}.rdb", std::process::id()));
    let result = write(&temporary).and_then(|()| {
        storage.rename(&temporary, path)?;
        storage.sync_directory(
            path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        )
    });
    result.map_err(|error| {
        let _ = storage.remove(&temporary);
        error.to_string()
    })
}

/// Writes `save` to a file that is safe then; directive `sync_directive` says whether it is synced on the way.
pub fn write(
    server: &Server,
    save: &Save,
    storage: &dyn Storage,
    path: &Path,
    sync_directive: &str,
) -> journal::storage::Result<()> {
    let mut output = Output::new(server, storage.create(path), sync_directive);
    produce(server, save, &mut |bytes| output.append(bytes));
    output.finish()
}

/// Makes the content of a file, and gives `take` one piece after the other. All of the snapshot is walked.
pub fn produce(server: &Server, save: &Save, take: &mut dyn FnMut(&[u8])) {
    enclose(server, save, take, |give| {
        thread::scope(|scope| {
            let mut encoders: Vec<Receiver<(Vec<u8>, Piece)>> = (0..encoders())
                .map(|_| {
                    let (pieces, receiver) = sync_channel(PIECES_WAITING);
                    scope.spawn(move || encode(server, save, &pieces));
                    receiver
                })
                .collect();
            while !encoders.is_empty() {
                encoders.retain(|encoder| take_turn(encoder, give));
                save.note_progress(server);
                courtesy::while_saving(server);
            }
        });
    });
}

/// Gives `take` what `keys` gives, between what a file begins and ends with.
fn enclose(
    server: &Server,
    save: &Save,
    take: &mut dyn FnMut(&[u8]),
    keys: impl FnOnce(&mut dyn FnMut(&[u8])),
) {
    let with_checksum = server.config.bool("rdbchecksum");
    let mut crc = 0;
    let mut give = |bytes: &[u8]| {
        if with_checksum {
            crc = crc64::update(crc, bytes);
        }
        take(bytes);
    };
    give(&save.head);
    keys(&mut give);
    let mut tail = Vec::new();
    rdb::end(&mut tail);
    give(&tail);
    take(&crc.to_le_bytes());
}

/// Sends the pieces of one encoder until the writer is gone or nothing is left.
fn encode(server: &Server, save: &Save, pieces: &SyncSender<(Vec<u8>, Piece)>) {
    let mut encoder = save.encoder(server);
    loop {
        let mut bytes = Vec::new();
        let piece = if !delay::is_wanted(server, delay::SAVED) {
            bytes.reserve(PIECE_BYTES + PIECE_BYTES / 8);
            encoder.fill(&mut bytes, PIECE_BYTES)
        } else {
            let piece = encoder.fill(&mut bytes, 1);
            delay::after_key(server, delay::SAVED);
            piece
        };
        pieces.send((bytes, piece)).expect("save-writer: takes every piece");
        if piece == Piece::Last {
            return;
        }
        courtesy::while_saving(server);
    }
}

/// Threads that encode: clients keep half of the CPUs.
fn encoders() -> usize {
    (usable_cpus() / 2).max(1)
}

/// Writes the next whole records of an encoder; false if they were its last.
fn take_turn(encoder: &Receiver<(Vec<u8>, Piece)>, give: &mut dyn FnMut(&[u8])) -> bool {
    loop {
        let (bytes, piece) = encoder.recv().expect("save-encoder: ends with its last piece");
        give(&bytes);
        match piece {
            Piece::Torn => {}
            Piece::Whole => return true,
            Piece::Last => return false,
        }
    }
}

/// The file; after its first failure nothing is written.
pub struct Output {
    file: journal::storage::Result<std::sync::Arc<dyn StoredFile>>,
    unsynced_bytes: u64,
    /// So many are too many.
    sync_bytes: u64,
}

impl Output {
    /// For a file that was just made.
    pub fn new(
        server: &Server,
        file: journal::storage::Result<std::sync::Arc<dyn StoredFile>>,
        sync_directive: &str,
    ) -> Output {
        let sync_bytes = if server.config.bool(sync_directive) { SYNC_BYTES } else { u64::MAX };
        Output { file, unsynced_bytes: 0, sync_bytes }
    }

    /// Makes the file safe, if nothing has failed.
    pub fn finish(self) -> journal::storage::Result<()> {
        self.file?.sync_data()
    }

    /// Writes bytes, unless something has failed before.
    pub fn append(&mut self, bytes: &[u8]) {
        let Ok(file) = &self.file else { return };
        self.unsynced_bytes += bytes.len() as u64;
        let mut result = append_all(&**file, bytes);
        if self.unsynced_bytes >= self.sync_bytes {
            self.unsynced_bytes = 0;
            result = result.and_then(|()| file.sync_data());
        }
        if let Err(error) = result {
            self.file = Err(error);
        }
    }
}
