/** Users of NATS that sign in with keys: a user's key alone, and an operator, an account and a user with their JWTs. */
import { createHash } from 'node:crypto'
import { nkeys } from '@nats-io/transport-node'

type KeyPair = ReturnType<typeof nkeys.createUser>

export interface NatsUser {
  /** SU…. */
  seed: string
  /** U…. */
  publicKey: string
}

export function newUser(): NatsUser {
  return userOf(nkeys.createUser())
}

function userOf(pair: KeyPair): NatsUser {
  return { seed: Buffer.from(pair.getSeed()).toString(), publicKey: pair.getPublicKey() }
}

export interface NatsAccount {
  /** Lines of the server's configuration: it trusts the operator and knows the account. */
  more: string[]
  /** The content of a .creds file. */
  credentials: string
  user: NatsUser
  jwt: string
}

/** An account with JetStream and one user. */
export function newAccount(): NatsAccount {
  const [operator, account, user] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createUser()]
  const system = nkeys.createAccount()
  const connections = {
    subs: -1,
    data: -1,
    payload: -1,
    imports: -1,
    exports: -1,
    wildcards: true,
    conn: -1,
    leaf: -1,
  }
  const limits = { ...connections, mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }
  const operatorJwt = signed(operator, operator, { type: 'operator' })
  const accountJwt = signed(operator, account, { type: 'account', limits })
  const systemJwt = signed(operator, system, { type: 'account', limits: connections })
  const jwt = signed(account, user, { type: 'user', subs: -1, data: -1, payload: -1 })
  const { seed, publicKey } = userOf(user)
  return {
    more: [
      `operator: ${operatorJwt}`,
      'resolver: MEMORY',
      `system_account: ${system.getPublicKey()}`,
      `resolver_preload: { ${account.getPublicKey()}: ${accountJwt}, ${system.getPublicKey()}: ${systemJwt} }`,
    ],
    credentials: `-----BEGIN NATS USER JWT-----\n${jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
    user: { seed, publicKey },
    jwt,
  }
}

/** Version 2 of NATS's JWTs: `ed25519-nkey` over header and claims, whose id is their hash. */
function signed(issuer: KeyPair, subject: KeyPair, nats: object): string {
  const claims = {
    iat: Math.floor(Date.now() / 1000),
    iss: issuer.getPublicKey(),
    name: 'test',
    sub: subject.getPublicKey(),
    nats: { ...nats, version: 2 },
  }
  const jti = createHash('sha256').update(JSON.stringify(claims)).digest('hex')
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const body = `${encoded({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encoded({ jti, ...claims })}`
  return `${body}.${Buffer.from(issuer.sign(Buffer.from(body))).toString('base64url')}`
}
