/** For look-up, connection, TLS and log-in, of each server. */
export const connectLimitMs = 10_000
