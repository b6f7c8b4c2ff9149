/** Connecting to a real nats-server: each thing that can be wrong is one line that says what, without a secret. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { connectNats } from '../../../src/cluster/nats/connect.ts'
import type { NatsSpec } from '../../../src/log/buffer-spec.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { startNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'

const plain = await startNats({ auth: { user: 'me', password: 's3cret-word' } })
const secure = await startNats({ tls: true })
const dir = mkdtempSync(path.join(tmpdir(), 'pipectl-nats-connect-'))
t.teardown(async () => {
  await plain.stop()
  await secure.stop()
  rmSync(dir, { recursive: true })
})
const dead = 'nats://127.0.0.1:1'
const [plainUrl, secureUrl] = [plain.servers[0]!.url, secure.servers[0]!.url]

function spec(changes: Partial<NatsSpec>): NatsSpec {
  const none = { user: null, password: null, credentialsFile: null, caFile: null }
  return { servers: [plainUrl], ...none, name: 'test', ...changes }
}
const login = { user: 'me', password: 's3cret-word' }

async function failure(changes: Partial<NatsSpec>): Promise<string> {
  try {
    await (await connectNats(spec(changes))).close()
  } catch (error) {
    const { message } = error as Error
    const mayCome = error instanceof StorageUnavailableError
    t.equal(mayCome, /no server responds/.test(message))
    t.ok(mayCome || error instanceof ConfigError)
    t.notMatch(message, /s3cret|wr0ng|\n/)
    return message
  }
  return 'connected'
}

t.test('it connects to any of several servers, with a password, and over TLS', async (t) => {
  t.equal(await failure(login), 'connected')
  t.equal(await failure({ ...login, servers: [dead, plainUrl] }), 'connected')
  t.equal(await failure({ servers: [secureUrl], caFile: secure.caFile }), 'connected')
  t.equal(
    await failure({ servers: [secureUrl.replace('nats:', 'tls:')], caFile: secure.caFile }),
    'connected',
  )
})

t.test('a login that is refused says whose', async (t) => {
  t.equal(
    await failure({ user: 'me', password: 'wr0ng' }),
    `buffer.nats: ${plainUrl} rejects the user me or its password`,
  )
  t.equal(
    await failure({ user: 'me', password: 'wr0ng', servers: [dead, plainUrl] }),
    `buffer.nats: ${dead}, ${plainUrl} rejects the user me or its password`,
  )
  t.match(await failure({}), /requires a user and password \(nats:\/\/user:password@…\)/)
})

t.test('credentials that cannot be used name their file', async (t) => {
  const file = path.join(dir, 'creds')
  t.match(await failure({ credentialsFile: file }), `buffer.nats_credentials: ${file} cannot be read: ENOENT`)
  writeFileSync(file, 's3cret')
  t.equal(
    await failure({ credentialsFile: file }),
    `buffer.nats_credentials: ${file} is not a credentials file of NATS (a JWT and a seed)`,
  )
})

t.test('servers that are not there are told from those that do not let us in', async (t) => {
  t.match(
    await failure({ ...login, servers: [dead] }),
    `buffer.nats: no server responds at ${dead}: connection`,
  )
  t.match(await failure({ servers: ['nats://nobody.invalid:4222'] }), /no server responds at .*ENOTFOUND/)
  const other = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const address = other.address()
  const port = typeof address === 'object' ? address?.port : 0
  t.match(await failure({ servers: [`nats://127.0.0.1:${port}`] }), /no server responds at .*unexpected/)
  await new Promise((resolve) => other.close(resolve))
})

t.test('TLS that fails says which side of it', async (t) => {
  t.match(
    await failure({ servers: [secureUrl] }),
    /^buffer.nats_ca: the certificate of .* is not verified by the system's CAs \(set buffer.nats_ca/,
  )
  const noCa = path.join(dir, 'no-ca.pem')
  t.match(await failure({ servers: [secureUrl], caFile: noCa }), `buffer.nats_ca: ${noCa} cannot be read`)
  // A password never goes over a connection that was to be encrypted and is not.
  t.match(
    await failure({ ...login, servers: [plainUrl.replace('nats:', 'tls:')] }),
    /offers no TLS, and tls:\/\/ asks for it/,
  )
  t.match(await failure({ ...login, caFile: secure.caFile }), /offers no TLS, and buffer.nats_ca asks for it/)
})

t.test('a connection that is lost comes back', async (t) => {
  const connection = await connectNats(spec(login))
  t.teardown(() => connection.close())
  await plain.servers[0]!.restart()
  t.ok(await until('it answers', () => connection.request('$JS.API.INFO', '', { timeout: 1_000 })))
})
