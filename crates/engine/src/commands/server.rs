//! Commands about the server.
