/** Signs a server's nonce: with a user's seed, or with the JWT and seed of a credentials file. */
import { jwtAuthenticator, nkeyAuthenticator } from '@nats-io/transport-node'

/** Members of the CONNECT message. Throws for an invalid seed. */
export interface SignedNonce {
  nkey?: string
  sig?: string
  jwt?: string
}

export function signedBySeed(seed: string, nonce: string | undefined): SignedNonce {
  return asMembers(nkeyAuthenticator(Buffer.from(seed))(nonce))
}

export function signedByCredentials(jwt: string, seed: string, nonce: string | undefined): SignedNonce {
  return asMembers(jwtAuthenticator(jwt, Buffer.from(seed))(nonce))
}

function asMembers(auth: unknown): SignedNonce {
  const { nkey, sig, jwt } = Object(auth)
  return { nkey, sig, jwt }
}
