/** The key of a database server is pinned before the log-in begins, and another key ends the attempt before it. */
import { createHash, X509Certificate } from 'node:crypto'
import net, { type AddressInfo } from 'node:net'
import tls from 'node:tls'
import t from 'tap'
import type { DatabaseSpec, DestinationDriver, PinServerKey } from '../../../src/destinations/driver.ts'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { greeting, honestMysql, packet } from '../../support/rogue/mysql.ts'
import { honestPostgres } from '../../support/rogue/postgresql.ts'
import { attempt } from '../../support/rogue/rogue-attempts.ts'
import {
  type HonestSession,
  honestly,
  type RogueServer,
  startRogue,
} from '../../support/rogue/rogue-server.ts'
import { selfSignedCertificate } from '../../support/tls.ts'
import { until } from '../../support/until.ts'

const host = '127.0.0.2'
const batch = makeBatch([[{ v: 'x' }]])
const otherKey = 'ab'.repeat(32)
const servers: { name: string; module: typeof mysql; dialect: string; session(): HonestSession }[] = [
  { name: 'PostgreSQL', module: postgresql, dialect: 'postgresql', session: honestPostgres },
  {
    name: 'MySQL',
    module: mysql,
    dialect: 'mysql',
    session: () => ({ ...honestMysql(), greeting: greeting(true) }),
  },
]

function specOf(dialect: string, port: number): DatabaseSpec {
  const account = { database: 'd', username: 'someone', password: 'secret-word', table: 't' }
  return makeSpec('destination_database', { host, port, dialect, ...account })
}

for (const { name, module, dialect, session } of servers) {
  const start = async (t: { teardown(end: () => unknown): unknown }): Promise<RogueServer> => {
    const server = await startRogue(session, 99, honestly, { host, tls: true })
    t.teardown(() => server.stop())
    return server
  }
  const open = ({ port }: RogueServer, pin: PinServerKey): DestinationDriver =>
    module.open(specOf(dialect, port), openSettings, pin)

  t.test(`${name}: nothing is said to the server until its key is pinned`, async (t) => {
    const server = await start(t)
    let pinned = (_: string) => {}
    let seen: string | undefined
    const driver = open(server, (sha256) => {
      seen = sha256
      return new Promise((resolve) => {
        pinned = resolve
      })
    })
    const delivering = attempt(driver, batch, 60_000)
    await until('the key is known', () => seen !== undefined)
    t.match(seen, /^[0-9a-f]{64}$/)
    t.equal(server.heard(), '', 'not even the name of the user')
    pinned(seen!)
    t.equal(await delivering, 'delivered')
    t.match(server.heard(), /someone/, 'negative control: what is said is heard')
  })

  t.test(`${name}: a server with another key hears nothing`, async (t) => {
    const server = await start(t)
    const error = await attempt(
      open(server, async () => otherKey),
      batch,
      60_000,
    )
    t.match(error, { class: 'permanent', code: 'certificate_changed', failedSeq: 1 })
    t.match(String(error), new RegExp(`pinned ${otherKey}, now [0-9a-f]{64}\\..*reset-pin`))
    t.equal(server.heard(), '')
  })

  t.test(`${name}: a key that cannot be pinned, and a destination that was changed meanwhile`, async (t) => {
    const server = await start(t)
    const full = open(server, () => Promise.reject(new Error('disk full')))
    t.match(await attempt(full, batch, 60_000), { class: 'transient', code: 'pin_not_stored' })
    const changed = open(server, async () => null)
    t.match(await attempt(changed, batch, 60_000), { class: 'transient', code: 'destination_changed' })
    t.equal(server.heard(), '')
  })

  t.test(`${name}: pinning is asked once per connection, and never without TLS`, async (t) => {
    const server = await start(t)
    let asked = 0
    const driver = open(server, async (sha256) => {
      asked += 1
      return sha256
    })
    t.teardown(() => driver.close())
    await driver.deliver(batch, never)
    await driver.deliver(batch, never)
    t.equal(asked, 1)

    const clear = () => (dialect === 'mysql' ? honestMysql() : honestPostgres())
    const plain = await startRogue(clear, 99, honestly)
    t.teardown(() => plain.stop())
    const spec = specOf(dialect, plain.port)
    const local = { ...spec, config: { ...spec.config, host: '127.0.0.1' } }
    const neverAsked: PinServerKey = () => Promise.reject(new Error('asked'))
    t.equal(await attempt(module.open(local, openSettings, neverAsked), batch, 60_000), 'delivered')
  })

  t.test(`${name}: where the operator wants no pins any server is taken, and a check says so`, async (t) => {
    const server = await start(t)
    const settings = { ...openSettings, pinsDatabaseKeys: false }
    const spec = { ...specOf(dialect, server.port), pinnedKey: otherKey }
    const driver = module.open(spec, settings, async () => otherKey)
    t.equal(await attempt(driver, batch, 60_000), 'delivered')
    const [, certificate] = await module.check(spec, settings, AbortSignal.timeout(60_000))
    t.match(certificate, { name: 'certificate', ok: true, message: /[0-9a-f]{64}: it is not pinned/ })
  })

  t.test(`${name}: a check says which key it saw, and compares it with the pinned one`, async (t) => {
    const server = await start(t)
    const check = async (pinnedKey: string | null, { port } = server) => {
      const spec = { ...specOf(dialect, port), pinnedKey }
      return module.check(spec, openSettings, AbortSignal.timeout(60_000))
    }
    const [connect, certificate] = await check(null)
    t.match(
      [connect, certificate],
      [
        { name: 'connect', ok: true },
        { name: 'certificate', ok: true },
      ],
    )
    const seen = /[0-9a-f]{64}/.exec(certificate?.message ?? '')?.[0] ?? ''
    t.match((await check(seen))[1], { name: 'certificate', ok: true, message: /pinned key/ })
    const unused = await start(t)
    const changed = await check(otherKey, unused)
    t.match(changed, [
      { name: 'connect', ok: true },
      { name: 'certificate', ok: false },
    ])
    t.equal(changed.length, 2)
    t.match(changed[1]?.message, new RegExp(`pinned ${otherKey}, now ${seen}`))
    t.equal(unused.heard(), '', 'nothing was said')
  })
}

t.test('the key is that of the certificate, and the same for another certificate of that key', async (t) => {
  const { key, certificate } = selfSignedCertificate()
  const { key: _, certificate: other } = selfSignedCertificate()
  const publicKey = (pem: string) =>
    new X509Certificate(pem).publicKey.export({ type: 'spki', format: 'der' })
  const expected = createHash('sha256').update(publicKey(certificate)).digest('hex')
  t.not(expected, createHash('sha256').update(publicKey(other)).digest('hex'))
  const server = await startTls(
    { key, cert: certificate },
    (raw) => raw.write('S'),
    () => {},
  )
  t.teardown(() => server.stop())
  const seen: string[] = []
  const driver = postgresql.open(specOf('postgresql', server.port), openSettings, async (sha256) => {
    seen.push(sha256)
    return otherKey
  })
  await attempt(driver, batch, 60_000)
  t.same(seen, [expected])
})

t.test('MySQL: a server that asks for the password before it is admitted gets nothing', async (t) => {
  const { key, certificate } = selfSignedCertificate()
  const heard: Buffer[] = []
  const askForPassword = packet(2, [0xfe], 'mysql_native_password\0', 'saltsaltsaltsaltsalt\0')
  const server = await startTls(
    { key, cert: certificate },
    () => {},
    (secure) => {
      secure.on('data', (chunk) => heard.push(chunk))
      secure.write(askForPassword)
    },
    greeting(true),
  )
  t.teardown(() => server.stop())
  const driver = mysql.open(specOf('mysql', server.port), openSettings, () => new Promise(() => {}))
  t.match(await attempt(driver, batch, 60_000), { class: 'transient', code: 'protocol_error' })
  t.equal(Buffer.concat(heard).toString('latin1'), '')
})

/** Speaks TLS after the client's first bytes; `onSecure` gets the decrypted side. */
async function startTls(
  pair: { key: string; cert: string },
  onRequest: (raw: net.Socket) => void,
  onSecure: (secure: tls.TLSSocket) => void,
  hello?: Buffer,
): Promise<{ port: number; stop(): Promise<void> }> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((raw) => {
    sockets.add(raw)
    raw.on('error', () => {})
    if (hello !== undefined) raw.write(hello)
    raw.once('data', (request) => {
      onRequest(raw)
      raw.pause()
      // A MySQL client goes on with TLS right after its request, which may come in one piece with it.
      const rest = hello === undefined ? Buffer.alloc(0) : request.subarray(4 + request.readUIntLE(0, 3))
      if (rest.length > 0) raw.unshift(rest)
      const secure = new tls.TLSSocket(raw, { isServer: true, ...pair })
      secure.on('error', () => {})
      secure.once('secure', () => onSecure(secure))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
