//! PostgreSQL as the place of locks: the wire (simple queries over our own sockets and TLS),
//! sessions that are checked before they are believed, and the functions of the schema.

pub(crate) mod credentials;
pub(crate) mod engine;
pub(crate) mod fault;
pub(crate) mod schema;
pub(crate) mod session;
mod stream;
mod tls;
mod wire;
