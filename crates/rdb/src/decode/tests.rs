//! Values there and back, and bytes that are no values.

use store::{Encoding, Stream, StreamId};

use super::*;
use crate::encode::Compression;
use crate::payload::{self, Checksum};
use crate::ziplist::tests::ziplist_of;

fn thresholds() -> Thresholds {
    Thresholds::default()
}

/// All elements of a value as text, in an order of their own.
fn content(value: &OwnedValue) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut all = Vec::new();
    let is_list = match value {
        OwnedValue::Inline(bytes, _) => {
            all.push(text(bytes));
            true
        }
        OwnedValue::Object(Value::Str(long)) => {
            all.push(text(&long.to_vec()));
            true
        }
        OwnedValue::Object(Value::List(list)) => {
            let mut elements = list.iter(0, false);
            while let Some(element) = elements.next() {
                all.push(text(element));
            }
            true
        }
        OwnedValue::Object(Value::Set(set)) => {
            let mut members = set.iter();
            while let Some(member) = members.next() {
                all.push(text(member));
            }
            false
        }
        OwnedValue::Object(Value::ZSet(zset)) => {
            let mut members = zset.iter();
            while let Some((member, score)) = members.next() {
                all.push(format!("{}={score}", text(member)));
            }
            false
        }
        OwnedValue::Object(Value::Hash(hash)) => {
            let mut fields = hash.iter();
            while let Some((field, value, end_ms)) = fields.next_with_end() {
                let end = end_ms.map(|end_ms| format!(" until {end_ms}")).unwrap_or_default();
                all.push(format!("{}={}{end}", text(field), text(value)));
            }
            false
        }
        OwnedValue::Object(Value::Stream(stream)) => {
            all = stream_content(stream);
            true
        }
    };
    if !is_list {
        all.sort_unstable();
    }
    all
}

fn stream_content(stream: &Stream) -> Vec<String> {
    let (first, last) = (stream.first_entry_id(), stream.last_id());
    let mut all = vec![format!(
        "{first:?} {last} {} {} in {} nodes",
        stream.max_deleted_id(),
        stream.entries_added(),
        stream.node_count()
    )];
    let mut entries = stream.iter();
    while let Some(entry) = entries.next() {
        all.push(format!("{} {:?}", entry.id, entry.fields.collect::<Vec<_>>()));
    }
    let mut groups = stream.groups();
    while let Some((name, group)) = groups.next() {
        all.push(format!("{} {} {:?}", name.escape_ascii(), group.last_id(), group.entries_read()));
        let mut pending = group.pending_from(StreamId::MIN);
        while let Some((id, pending)) = pending.next() {
            all.push(format!("{id} {pending:?}"));
        }
        let mut consumers = group.consumers();
        while let Some((name, consumer)) = consumers.next() {
            all.push(format!("{} {} {:?}", name.escape_ascii(), consumer.seen_ms, consumer.pending_len()));
        }
    }
    all
}

/// A stream with entries of two shapes, of which some are gone, and groups with pending entries.
fn sample_stream(count: u64) -> Stream {
    let mut stream = Stream::new();
    for n in 0..count {
        let (value, number) = (format!("value {n}"), n.to_string());
        let fields = [(&b"name"[..], value.as_bytes()), (b"n", number.as_bytes()), (b"extra", b"")];
        let len = if n % 10 == 9 { 3 } else { 2 };
        stream.append(StreamId::new(1000 + n / 3, n), fields[..len].iter().copied(), &thresholds());
    }
    if count > 5 {
        assert!(stream.remove(StreamId::new(1001, 4)));
    }
    stream.set_last_id(StreamId::new(1 << 40, 7));
    for (name, entries_read) in [("readers", Some(3)), ("others", None)] {
        let mut group = store::stream::Group::new(StreamId::new(1001, 5), entries_read);
        for consumer in ["alice", "bob"] {
            assert!(group.create_consumer(consumer.as_bytes(), 5000, Some(5000)));
        }
        for n in 0..count.min(150) {
            let consumer = group.consumer_name(if n % 3 == 0 { b"bob" } else { b"alice" }).expect("created");
            let pending = store::stream::Pending { consumer, delivered_ms: 4000 + n as i64, deliveries: n };
            group.assign(StreamId::new(1000 + n / 3, n), pending);
        }
        assert!(stream.create_group(name.as_bytes(), group));
    }
    stream
}

fn encoding(value: &OwnedValue) -> Option<Encoding> {
    match value {
        OwnedValue::Inline(..) => None,
        OwnedValue::Object(value) => Some(value.encoding()),
    }
}

/// Values of every type, small and large.
fn samples() -> Vec<OwnedValue> {
    let t = &thresholds();
    let mut values = Vec::new();
    for text in
        [&b""[..], b"0", b"-1", b"300", b"70000", b"3000000000", b"plain text", &[b'z'; 3000], &[7; 50_000]]
    {
        values.push(OwnedValue::string(text));
    }
    for count in [1usize, 5, 100, 128, 129, 2000] {
        let (mut list, mut set, mut numbers) = (List::new(), Set::new(), Set::new());
        let (mut zset, mut hash) = (ZSet::new(), Hash::new());
        for n in 0..count {
            let text = format!("element number {n}");
            list.push_back(text.as_bytes(), t);
            list.push_back((n * n * 7919).to_string().as_bytes(), t);
            set.insert(text.as_bytes(), t);
            numbers.insert((n as i64 * 1_000_003 - 5).to_string().as_bytes(), t);
            zset.insert(text.as_bytes(), (n as f64 - 3.0) / 8.0, t);
            hash.set(text.as_bytes(), n.to_string().as_bytes(), t);
        }
        zset.insert(b"low", f64::NEG_INFINITY, t);
        zset.insert(b"high", f64::INFINITY, t);
        list.push_front(&vec![b'L'; count * 20], t);
        hash.set(b"long", &vec![b'V'; count], t);
        let mut timed = hash.clone();
        for n in (0..count).step_by(2) {
            timed.set_end_ms(format!("element number {n}").as_bytes(), Some(1_900_000_000_000 - n as i64));
        }
        values.push(OwnedValue::Object(timed.into_value()));
        for value in
            [list.into_value(), set.into_value(), numbers.into_value(), zset.into_value(), hash.into_value()]
        {
            values.push(OwnedValue::Object(value));
        }
    }
    values.extend([0, 1, 7, 450].map(|count| OwnedValue::Object(sample_stream(count).into_value())));
    values
}

#[test]
fn values_come_back_in_their_encodings() {
    for value in samples() {
        for compression in [Compression::On, Compression::Off] {
            let encoded = payload::encode(&value, compression);
            assert_eq!(encoded.len(), payload::len(&value, compression));
            let body = payload::body(&encoded, Checksum::Checked).expect("a right checksum");
            let back = payload::value(body, &thresholds()).expect("a value");
            assert_eq!(content(&back), content(&value));
            assert_eq!(encoding(&back), encoding(&value));
        }
    }
}

#[test]
fn a_value_that_is_cut_off_is_short_and_goes_on_later() {
    for value in samples() {
        let encoded = payload::encode(&value, Compression::On);
        let body = &encoded[..encoded.len() - payload::FOOTER_BYTES];
        let step = body.len().div_ceil(150);
        let mut decoder = ValueDecoder::new(body[0], 12, thresholds()).expect("a type");
        let (mut start, mut end) = (1, 1);
        let back = loop {
            let mut input = Cursor::new(&body[start..end]);
            let read = decoder.read(&mut input);
            start += input.position();
            match read {
                Ok(value) => break value,
                Err(error) => assert!(error == ReadError::Short && end < body.len(), "{error:?} at {end}"),
            }
            end = (end + step).min(body.len());
        };
        assert_eq!(content(&back), content(&value));
    }
}

/// The content that a value's bytes have, or what is wrong with them.
fn read(body: &[u8]) -> Result<String, ReadError> {
    read_version(body, 12)
}

fn read_version(body: &[u8], version: u8) -> Result<String, ReadError> {
    let closed = [body, &[version, 0], &[0; 8]].concat();
    let body = payload::body(&closed, Checksum::Ignored).expect("a known version");
    payload::value(body, &thresholds()).map(|value| content(&value).join(" "))
}

fn packed(code: u8, bytes: &[u8]) -> Vec<u8> {
    let mut body = vec![code];
    crate::wire::put_length(&mut body, bytes.len() as u64);
    body.extend_from_slice(bytes);
    body
}

#[test]
fn types_that_are_only_read() {
    for (body, expected) in [
        (packed(code::LIST_ZIPLIST, &ziplist_of(&[b"a", b"b", b"a"])), "a b a"),
        (packed(code::HASH_ZIPLIST, &ziplist_of(&[b"f", b"1", b"g", b"2"])), "f=1 g=2"),
        (packed(code::ZSET_ZIPLIST, &ziplist_of(&[b"m", b"1.5", b"n", b"-inf"])), "m=1.5 n=-inf"),
        (packed(code::HASH_ZIPMAP, b"\x01\x01f\x01\x00v\xff"), "f=v"),
        (packed(code::SET_LISTPACK, b"\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff"), "5 a"),
        (b"\x01\x02\x01a\xc0\x07".to_vec(), "a 7"),
        (b"\x03\x02\x01m\x03".iter().chain(b"1.5\x01n\xff").copied().collect(), "m=1.5 n=-inf"),
        (
            [
                &[code::LIST_OF_ZIPLISTS, 2][..],
                &packed(0, &ziplist_of(&[b"a"]))[1..],
                &packed(0, &ziplist_of(&[]))[1..],
            ]
            .concat(),
            "a",
        ),
        (b"\x12\x02\x01\x05plain\x02\x0a\x0a\0\0\0\x01\0\x81a\x02\xff".to_vec(), "plain a"),
    ] {
        assert_eq!(read(&body).as_deref(), Ok(expected), "{}", body.escape_ascii());
    }
}

#[test]
fn fields_that_end_are_read_in_all_their_forms() {
    let soonest = [0, 0, 1, 0, 0, 0, 0, 0];
    let pairs = [&[code::HASH_ENDS][..], &soonest, b"\x02\x01\x01a\x01b\0\x01c\x01d"].concat();
    assert_eq!(read(&pairs).as_deref(), Ok("a=b until 65536 c=d"));
    let mut packed = crate::listpack::ListpackWriter::new();
    ["a", "1", "0", "c", "d", "70000"].iter().for_each(|text| packed.push(text.as_bytes()));
    let packed = packed.finish();
    let body = [&[code::HASH_LISTPACK_ENDS][..], &soonest, &[packed.len() as u8], &packed].concat();
    assert_eq!(read(&body).as_deref(), Ok("a=1 c=d until 70000"));
    let valkey = b"\x16\x02\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff\x01c\x01d\0\0\x01\0\0\0\0\0";
    assert_eq!(read_version(valkey, 80).as_deref(), Ok("a=b c=d until 65536"));
    assert_eq!(read(valkey), Err(EARLY_ENDS));
    assert_eq!(read_version(valkey, 11), Err(ReadError::Corrupt("a type that is not known")));
    let late = [&[code::HASH_ENDS][..], &[0xff; 8], b"\x01\x02\x01a\x01b"].concat();
    assert_eq!(read(&late), Err(NO_END));
}

#[test]
fn the_sign_of_zero_is_kept_where_redis_keeps_it() {
    for (count, expected) in [(128, "0=0"), (129, "0=-0")] {
        let mut body = vec![code::ZSET];
        crate::wire::put_length(&mut body, count);
        for n in 0..count {
            crate::wire::StringWriter::new(false).put(&mut body, n.to_string().as_bytes());
            body.extend_from_slice(&(-0.0f64).to_le_bytes());
        }
        assert!(read(&body).is_ok_and(|content| content.starts_with(expected)), "{count}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let cases: [(Vec<u8>, ReadError); 17] = [
        (b"\x08\x00".to_vec(), ReadError::Corrupt("a type that is not known")),
        (b"\x07\x02".to_vec(), ReadError::Unsupported(Unsupported::Module(ModuleType(2)))),
        (b"\x16\x00".to_vec(), EARLY_ENDS),
        (b"\x00\x01ab".to_vec(), ReadError::Corrupt("bytes after the value")),
        (b"\x00\x02a".to_vec(), ReadError::Short),
        (b"\x02\x00".to_vec(), ReadError::Corrupt("a collection without elements")),
        (b"\x02\x02\x01a\x01a".to_vec(), DUPLICATE),
        (b"\x04\x02\x01f\x01a\x01f\x01b".to_vec(), DUPLICATE),
        (b"\x05\x01\x01m\0\0\0\0\0\0\xf8\x7f".to_vec(), NO_SCORE),
        (b"\x03\x01\x01m\xfd".to_vec(), NO_SCORE),
        (b"\x03\x01\x01m\x01x".to_vec(), NO_SCORE),
        (b"\x02\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x01a".to_vec(), ReadError::Short),
        (b"\x12\x01\x03\x01a".to_vec(), ReadError::Corrupt("a list node of an unknown kind")),
        (packed(code::HASH_ZIPLIST, &ziplist_of(&[b"f", b"1", b"g"])), ODD),
        (packed(code::HASH_ZIPLIST, &ziplist_of(&[b"f", b"1", b"f", b"2"])), DUPLICATE),
        (packed(code::ZSET_ZIPLIST, &ziplist_of(&[b"m", b"nan"])), NO_SCORE),
        (packed(code::LIST_ZIPLIST, &ziplist_of(&[])), ReadError::Corrupt("a collection without elements")),
    ];
    for (body, expected) in cases {
        assert_eq!(read(&body), Err(expected), "{}", body.escape_ascii());
    }
}

#[test]
fn a_payload_is_refused_by_version_and_checksum() {
    let good = payload::encode(&OwnedValue::string(b"bar"), Compression::On);
    // What DUMP of Redis 7.0 gives for SET k bar.
    assert_eq!(good, b"\0\x03bar\n\0\xe6\xbeI`\xeef\xfd\x17".to_vec());
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        assert!(payload::body(&changed, Checksum::Checked).is_none());
        assert_eq!(payload::body(&changed, Checksum::Ignored).is_some(), at != 5 && at != 6, "byte {at}");
        assert!(payload::body(&good[..at], Checksum::Checked).is_none());
    }
}
