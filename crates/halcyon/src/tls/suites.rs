//! Protocol versions and cipher suites by the names that OpenSSL, and so `redis.conf`, has for them.

use rustls::crypto::ring::cipher_suite as ring;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// A suite of TLS 1.2: OpenSSL's name, and the keywords of a cipher list that mean it among others.
struct Named {
    name: &'static str,
    standard_name: &'static str,
    suite: SupportedCipherSuite,
    keywords: &'static [&'static str],
}

/// Suites of TLS 1.2 in the order of OpenSSL's default list. All have forward secrecy and authenticated encryption.
static SUITES_OF_TLS12: [Named; 6] = [
    Named {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        standard_name: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        suite: ring::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        keywords: &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Named {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        standard_name: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        suite: ring::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        keywords: &["aRSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    Named {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        standard_name: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        suite: ring::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        keywords: &["ECDSA", "aECDSA", "CHACHA20"],
    },
    Named {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        standard_name: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        suite: ring::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        keywords: &["aRSA", "CHACHA20"],
    },
    Named {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        standard_name: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        suite: ring::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        keywords: &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    Named {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        standard_name: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        suite: ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        keywords: &["aRSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
];

/// Keywords that mean all of them.
const KEYWORDS_OF_ALL: [&str; 10] =
    ["DEFAULT", "ALL", "HIGH", "FIPS", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH"];

/// Suites of TLS 1.3, in OpenSSL's order.
static SUITES_OF_TLS13: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", ring::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", ring::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", ring::TLS13_AES_128_GCM_SHA256),
];

/// The versions that `tls-protocols` names; without any, all there are.
pub(super) fn versions(words: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut named = Vec::new();
    for word in words.split_ascii_whitespace() {
        match &word.to_ascii_lowercase()[..] {
            "tlsv1.2" => named.push(&TLS12),
            "tlsv1.3" => named.push(&TLS13),
            "tlsv1" | "tlsv1.1" => {
                return Err(format!(
                    "tls-protocols: {word} is broken and not supported. Use a combination of 'TLSv1.2' and 'TLSv1.3'."
                ));
            }
            _ => {
                let text = "Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and 'TLSv1.3'.";
                return Err(format!("{text} Unknown: '{word}'"));
            }
        }
    }
    Ok(if named.is_empty() { vec![&TLS13, &TLS12] } else { named })
}

/// What [`versions`] calls a version.
pub(super) fn version_name(version: &SupportedProtocolVersion) -> &'static str {
    if version.version == TLS12.version { "TLSv1.2" } else { "TLSv1.3" }
}

/// The suites that `tls-ciphersuites` names, in its order; without any, all.
pub(super) fn tls13(words: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen = Vec::new();
    for word in words.split(':').filter(|word| !word.is_empty()) {
        let found = SUITES_OF_TLS13.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let Some((_, suite)) = found else {
            let known: Vec<&str> = SUITES_OF_TLS13.iter().map(|(name, _)| *name).collect();
            return Err(format!("tls-ciphersuites: '{word}' is not known. Known are {}", known.join(", ")));
        };
        add(&mut chosen, *suite);
    }
    Ok(if chosen.is_empty() { SUITES_OF_TLS13.iter().map(|(_, suite)| *suite).collect() } else { chosen })
}

/// The suites that `tls-ciphers` selects, in its order; without any, all. The value is a cipher list of OpenSSL:
/// names and keywords, `+` between what must hold together, with `!` and `-` before what is taken out and `+` before
/// what goes to the end.
pub(super) fn tls12(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let words: Vec<&str> = list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Ok(SUITES_OF_TLS12.iter().map(|named| named.suite).collect());
    }
    let (mut chosen, mut never) = (Vec::new(), Vec::new());
    for word in words {
        // Strength and security level: all suites there are have the highest.
        if word.starts_with('@') {
            continue;
        }
        let (sign, selector) = match word.split_at_checked(1) {
            Some((sign @ ("!" | "-" | "+"), selector)) => (sign, selector),
            _ => ("", word),
        };
        let matching: Vec<SupportedCipherSuite> = SUITES_OF_TLS12
            .iter()
            .filter(|named| is_selected(named, selector))
            .map(|named| named.suite)
            .collect();
        match sign {
            // To leave out what is not there asks for nothing.
            "!" | "-" => {
                chosen.retain(|suite| !matching.contains(suite));
                never.extend(matching.into_iter().filter(|_| sign == "!"));
            }
            "+" => {
                let (last, first) =
                    chosen.into_iter().partition::<Vec<_>, _>(|suite| matching.contains(suite));
                chosen = [first, last].concat();
            }
            _ if matching.is_empty() => return Err(unknown_cipher(word)),
            _ => matching
                .into_iter()
                .filter(|suite| !never.contains(suite))
                .for_each(|suite| add(&mut chosen, suite)),
        }
    }
    Ok(chosen)
}

fn is_selected(named: &Named, selector: &str) -> bool {
    if named.name.eq_ignore_ascii_case(selector) || named.standard_name.eq_ignore_ascii_case(selector) {
        return true;
    }
    selector.split('+').all(|word| KEYWORDS_OF_ALL.contains(&word) || named.keywords.contains(&word))
}

fn unknown_cipher(word: &str) -> String {
    let names: Vec<&str> = SUITES_OF_TLS12.iter().map(|named| named.name).collect();
    format!(
        "tls-ciphers: '{word}' is not known. Known are {}, and keywords that select some of them, such as DEFAULT, \
         HIGH, ECDHE, AESGCM, AES128, AES256, CHACHA20, aRSA and aECDSA",
        names.join(", ")
    )
}

fn add(chosen: &mut Vec<SupportedCipherSuite>, suite: SupportedCipherSuite) {
    if !chosen.contains(&suite) {
        chosen.push(suite);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of what a cipher list selects, each without what all share.
    fn selected(list: &str) -> String {
        let chosen = tls12(list).unwrap_or_else(|error| panic!("{list}: {error}"));
        let name_of = |suite: &SupportedCipherSuite| {
            let named = SUITES_OF_TLS12.iter().find(|named| named.suite == *suite);
            named.map_or("?", |named| named.name.trim_start_matches("ECDHE-"))
        };
        chosen.iter().map(name_of).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cipher_lists_select_what_they_select_in_openssl() {
        const ALL: &str = "ECDSA-AES256-GCM-SHA384 RSA-AES256-GCM-SHA384 ECDSA-CHACHA20-POLY1305 \
                           RSA-CHACHA20-POLY1305 ECDSA-AES128-GCM-SHA256 RSA-AES128-GCM-SHA256";
        for (list, expected) in [
            ("", ALL),
            ("DEFAULT", ALL),
            ("DEFAULT:!MEDIUM", ALL),
            ("HIGH:!aNULL:!MD5:@STRENGTH", ALL),
            ("ECDHE-RSA-AES128-GCM-SHA256", "RSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "RSA-AES128-GCM-SHA256"),
            (
                "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256",
                "RSA-AES128-GCM-SHA256 ECDSA-AES256-GCM-SHA384",
            ),
            ("ECDHE+AESGCM+aRSA", "RSA-AES256-GCM-SHA384 RSA-AES128-GCM-SHA256"),
            ("EECDH+CHACHA20:EECDH+AES128:!aECDSA", "RSA-CHACHA20-POLY1305 RSA-AES128-GCM-SHA256"),
            ("!CHACHA20:ALL:-AES128", "ECDSA-AES256-GCM-SHA384 RSA-AES256-GCM-SHA384"),
            ("aRSA:+AES256", "RSA-CHACHA20-POLY1305 RSA-AES128-GCM-SHA256 RSA-AES256-GCM-SHA384"),
            ("-AES128:AES128+aRSA", "RSA-AES128-GCM-SHA256"),
            ("!ALL", ""),
        ] {
            assert_eq!(selected(list), expected, "{list}");
        }
    }

    #[test]
    fn suites_of_tls13_come_in_the_order_given() {
        for (words, expected) in [
            ("", SUITES_OF_TLS13.iter().map(|(_, suite)| *suite).collect()),
            ("TLS_AES_128_GCM_SHA256", vec![ring::TLS13_AES_128_GCM_SHA256]),
            (
                "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384",
                vec![ring::TLS13_CHACHA20_POLY1305_SHA256, ring::TLS13_AES_256_GCM_SHA384],
            ),
        ] {
            assert_eq!(tls13(words), Ok(expected), "{words}");
        }
    }

    #[test]
    fn what_is_unknown_is_named_beside_what_is_known() {
        for (error, named, known) in [
            (tls12("DHE-RSA-AES128-SHA").err(), "'DHE-RSA-AES128-SHA'", "ECDHE-RSA-AES256-GCM-SHA384"),
            (tls12("RC4").err(), "'RC4'", "CHACHA20"),
            (tls13("TLS_AES_128_CCM_SHA256").err(), "'TLS_AES_128_CCM_SHA256'", "TLS_AES_128_GCM_SHA256"),
            (versions("TLSv1.1").err(), "TLSv1.1", "'TLSv1.2' and 'TLSv1.3'"),
            (versions("TLSv1.2 SSLv3").err(), "'SSLv3'", "'TLSv1.2' and 'TLSv1.3'"),
        ] {
            let error = error.unwrap_or_else(|| panic!("{named} was accepted"));
            assert!(error.contains(named) && error.contains(known), "{error}");
        }
    }

    #[test]
    fn versions_are_those_named_or_all() {
        for (words, expected) in [
            ("", "TLSv1.3 TLSv1.2"),
            ("tlsv1.2", "TLSv1.2"),
            ("TLSv1.3", "TLSv1.3"),
            ("TLSv1.2 TLSv1.3", "TLSv1.2 TLSv1.3"),
        ] {
            let names: Vec<&str> =
                versions(words).expect("they are known").into_iter().map(version_name).collect();
            assert_eq!(names.join(" "), expected, "{words}");
        }
    }
}
