/**
 * The credentials for a server that asks for a signature: from a user's seed, or from the JWT and the seed of a
 * credentials file.
 */
import { jwtAuthenticator, nkeyAuthenticator } from '@nats-io/transport-node'

/** Members of the CONNECT message. Throws for a seed that is none. */
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
