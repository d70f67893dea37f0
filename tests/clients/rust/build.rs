//! Hands the program the version of the library that Cargo.lock chose.

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock beside Cargo.toml");
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"redis\"\n"))
        .and_then(|package| package.split("version = \"").nth(1)?.split('"').next())
        .expect("redis in Cargo.lock");
    println!("cargo::rustc-env=REDIS_RS_VERSION={version}");
}
