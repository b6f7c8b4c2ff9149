/** Egress policy: what may not be dialled, however it is spelled, by whichever driver. */
import http from 'node:http'
import https from 'node:https'
import t from 'tap'
import { DeliveryError, type EgressPolicy } from '../../../src/destinations/driver.ts'
import { openDriver } from '../../../src/destinations/drivers.ts'
import {
  checkTargetHost,
  checkTargetUrl,
  dial,
  egressDenied,
  egressHttpAgents,
} from '../../../src/destinations/egress.ts'
import { isAddressAllowed, ReadLimit } from '../../../src/destinations/guards.ts'
import { httpEndpoint } from '../../../src/destinations/http-endpoint/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { lookUp } from '../../../src/destinations/resolver.ts'
import { anyKey, makeBatch, makeSpec, never } from '../../support/batches.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { startNameServer } from '../../support/name-server.ts'

const open: EgressPolicy = { allow: [], deny: [], private: 'allow' }
const closed: EgressPolicy = { ...open, private: 'deny' }

/** Rejected under every policy. */
const always = [
  '169.254.169.254',
  '169.254.0.1',
  '169.254.255.255',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '0.0.0.0',
  '0.1.2.3',
  '224.0.0.1',
  '239.255.255.250',
  '240.0.0.1',
  '255.255.255.255',
  // Spellings of 169.254.169.254 and 127.0.0.1 that the C library takes
  '2852039166',
  '0xa9fea9fe',
  '0xA9.0xFE.0xA9.0xFE',
  '0251.0376.0251.0376',
  '169.254.43518',
  '169.16689662',
  '0251.254.0xa9.254',
  '0xa9fe.43518',
  '169.254.169.254.',
  '169.254.169.0376',
  '169.254.169.0xfe',
  '2130706433',
  '0x7f.1',
  '0x7f000001',
  '0177.0.0.1',
  '127.1',
  '127.0.1',
  '0',
  '017700000001',
  '0x7f.0.0.1',
  '127.0.0.01',
  // Full-width and other letters that IDNA maps to digits and dots
  '１６９.２５４.１６９.２５４',
  '169。254。169。254',
  '①②⑦.0.0.1',
  // IPv6, with and without brackets and zones
  '::',
  '[::]',
  '0:0:0:0:0:0:0:0',
  'fe80::1',
  '[fe80::1]',
  'FE80:0000::1',
  'fe80::1%eth0',
  'febf::1',
  'fd00:ec2::254',
  '[fd00:0ec2:0:0::0254]',
  'fd20:ce::254',
  'ff02::1',
  'ff0e::1',
  '100::1',
  '2001::1',
  // IPv4 carried in IPv6
  '::ffff:169.254.169.254',
  '[::ffff:a9fe:a9fe]',
  '::ffff:0:169.254.169.254',
  '0:0:0:0:0:ffff:a9fe:a9fe',
  '::169.254.169.254',
  '64:ff9b::169.254.169.254',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::a9fe:a9fe',
  '2002:a9fe:a9fe::1',
  '2002:a9fe:a9fe::',
  '::ffff:127.0.0.1',
  '[::ffff:7f00:1]',
  '::127.0.0.1',
  '::ffff:0.0.0.0',
  '64:ff9b::224.0.0.1',
  '2002:6464:64c8::',
  // Sockets in the file system, and no host at all
  '/var/run/postgresql',
  '/',
  '@abstract',
  '',
  '.',
  'a\0b',
  '127.0.0.1\0.example.com',
]
/** Rejected when private addresses are, and only then. */
const whenClosed = [
  '127.0.0.1',
  '127.255.255.254',
  '10.0.0.1',
  '10.255.255.255',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '100.64.0.1',
  '198.18.0.1',
  '::1',
  '[::1]',
  '0:0:0:0:0:0:0:1',
  'fc00::1',
  'fd12:3456::1',
  'fec0::1',
  'localhost',
  'LOCALHOST',
  'localhost.',
  'db.localhost',
  '64:ff9b::10.0.0.1',
  '2002:7f00:1::',
]
const fine = [
  '93.184.216.34',
  '8.8.8.8',
  '172.32.0.1',
  '100.128.0.1',
  '2606:4700::1',
  '64:ff9b::8.8.8.8',
  'example.com',
  'EXAMPLE.com.',
  'bücher.example',
  '1e100.net',
  'db_1.internal',
]

t.test('at least 60 spellings of forbidden addresses are rejected as a host', async (t) => {
  t.ok(always.length + whenClosed.length >= 60, `${always.length} + ${whenClosed.length}`)
  for (const host of always) {
    t.ok(checkTargetHost(host, open), `${host} under the open policy`)
    t.ok(checkTargetHost(host, { ...closed, allow: ['0.0.0.0/0', '::/0'] }), `${host} whatever is allowed`)
  }
  for (const host of whenClosed) {
    t.ok(checkTargetHost(host, closed), `${host} when private addresses are refused`)
    t.equal(checkTargetHost(host, open), null, `${host} under the open policy`)
  }
  for (const host of fine) t.equal(checkTargetHost(host, closed), null, `${host}: negative control`)
})

t.test('the same spellings are rejected in URLs (HTTP endpoint, S3 endpoint)', async (t) => {
  const inUrl = (host: string) =>
    host.includes(':') && !host.startsWith('[') ? `[${host.replace(/%.*/, '')}]` : host
  for (const scheme of ['http', 'https']) {
    // In a URL a path is a path: it cannot stand for a host.
    for (const host of always.filter((host) => !/^[/@]/.test(host))) {
      t.ok(checkTargetUrl(`${scheme}://${inUrl(host)}:9000/bucket`, open), `${scheme} ${host}`)
    }
    for (const host of whenClosed)
      t.ok(checkTargetUrl(`${scheme}://${inUrl(host)}/`, closed), `${scheme} ${host}`)
    for (const host of fine)
      t.equal(checkTargetUrl(`${scheme}://${inUrl(host)}/x?y`, closed), null, `${scheme} ${host}`)
  }
  for (const url of [
    'http://example.com@169.254.169.254/',
    'http://a:b@0x7f.1/',
    'http:\\\\127.1\\x',
    'http:/127.1/',
    'http:127.1',
    'HTTP://%31%32%37.1/',
    ' http://127.1/',
    'http://127.1#@example.com',
    'http://127.1?@example.com/',
    'http://12\t7.1/',
    'not a url',
    '',
  ]) {
    t.ok(checkTargetUrl(url, open), url)
  }
})

t.test('deny wins over allow, by CIDR, address, name and wildcard', async (t) => {
  const policy: EgressPolicy = {
    allow: ['10.1.0.0/16', '127.0.0.1', 'db.corp', '*.lan', '203.0.113.0/24'],
    deny: ['10.1.9.0/24', 'evil.example', '*.evil.example', '203.0.113.7', '2001:db8::/32'],
    private: 'deny',
  }
  const allowed: [string, string, boolean][] = [
    ['10.1.2.3', '10.1.2.3', true],
    ['10.2.0.1', '10.2.0.1', false],
    ['10.1.9.1', '10.1.9.1', false],
    ['127.0.0.1', 'localhost', true],
    ['127.0.0.2', '127.0.0.2', false],
    ['10.2.0.1', 'db.corp', true],
    ['10.2.0.1', 'x.db.corp', false],
    ['192.168.0.1', 'nas.lan', true],
    ['192.168.0.1', 'lan', false],
    ['192.168.0.1', 'xlan', false],
    ['10.1.9.1', 'nas.lan', false],
    ['203.0.113.8', 'a', true],
    ['203.0.113.7', 'a', false],
    ['64:ff9b::203.0.113.7', 'a', false],
    ['8.8.8.8', 'evil.example', false],
    ['8.8.8.8', 'sub.evil.example', false],
    ['8.8.8.8', 'notevil.example', true],
    ['2001:db8::1', 'a', false],
    ['169.254.169.254', 'nas.lan', false],
    ['nonsense', 'a', false],
  ]
  for (const [address, host, expected] of allowed) {
    t.equal(isAddressAllowed(address, host, policy), expected, `${host} at ${address}`)
  }
  for (const host of ['evil.example', 'EVIL.example.', 'a.b.evil.example'])
    t.ok(checkTargetHost(host, policy), host)
})

t.test('auto: as allow with one workspace, from the second on as deny', async (t) => {
  const { policy, count } = auto(1)
  for (const address of ['127.0.0.1', '::1', '10.0.0.1', 'fd12::1'])
    t.ok(isAddressAllowed(address, address, policy, 5432), `${address} with one workspace`)
  t.notOk(isAddressAllowed('169.254.169.254', 'a', policy, 5432), 'metadata addresses never')
  count[0] = 2
  const denied = ['127.0.0.1', '127.9.9.9', '::1', '10.0.0.1', '192.168.1.1', 'fd12::1', '64:ff9b::127.0.0.1']
  for (const address of [...denied, '2002:7f00:1::', '169.254.169.254', '0.0.0.0'])
    t.notOk(isAddressAllowed(address, address, policy, 5432), `${address} with two workspaces`)
  t.ok(isAddressAllowed('8.8.8.8', '8.8.8.8', policy, 5432))
  for (const host of ['localhost', 'db.localhost', '127.0.0.1', '[::1]'])
    t.ok(checkTargetHost(host, policy, { port: 5432 }), `${host} of a database`)
  t.equal(isAddressAllowed('10.0.0.1', 'a', { ...policy, allow: ['10.0.0.0/8'] }), true, 'what is listed')
  t.notOk(
    isAddressAllowed('10.0.0.1', 'a', { ...open, private: 'auto' }),
    'who does not know how many denies',
  )
})

t.test('an exception with a port is for that port alone', async (t) => {
  const policy = { ...closed, allow: ['127.0.0.1:5432', '[::1]:5432', 'db.corp:3306', 'localhost:6000'] }
  const cases: [host: string, address: string, port: number | null, expected: boolean][] = [
    ['127.0.0.1', '127.0.0.1', 5432, true],
    ['127.0.0.1', '127.0.0.1', 5433, false],
    ['127.0.0.1', '127.0.0.1', null, false],
    ['127.0.0.2', '127.0.0.2', 5432, false],
    ['localhost', '127.0.0.1', 5432, true],
    ['localhost', '127.0.0.1', 6000, true],
    ['127.0.0.1', '127.0.0.1', 6000, false],
    ['::1', '::1', 5432, true],
    ['::1', '::1', 22, false],
    ['db.corp', '10.0.0.5', 3306, true],
    ['db.corp', '10.0.0.5', 22, false],
    ['other.corp', '10.0.0.5', 3306, false],
  ]
  for (const [host, address, port, expected] of cases)
    t.equal(isAddressAllowed(address, host, policy, port), expected, `${host} at ${address}, port ${port}`)
  t.equal(checkTargetHost('127.0.0.1', policy, { port: 5432 }), null)
  t.ok(checkTargetHost('127.0.0.1', policy, { port: 22 }))
  t.equal(checkTargetUrl('http://127.0.0.1:5432/', policy), null)
  t.ok(checkTargetUrl('http://127.0.0.1/', policy), 'port 80')
  const deny = ['127.0.0.1']
  t.notOk(isAddressAllowed('127.0.0.1', '127.0.0.1', { ...policy, deny }, 5432), 'deny wins')
})

t.test('addresses of the service itself are never dialed, whatever the policy allows', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const port = Number(new URL(sink.url).port)
  const own = (host: string, database?: string) => ({
    ...open,
    own: [{ host, port, ...(database === undefined ? {} : { database }) }],
  })
  const dials = async (host: string, policy: EgressPolicy, database?: string) =>
    await dial({ host, port, ...(database === undefined ? {} : { database }) }, policy).then(
      (socket) => {
        socket.destroy()
        return 'connected'
      },
      (error: unknown) => (error instanceof DeliveryError ? `${error.class} ${error.code}` : String(error)),
    )
  for (const listener of ['127.0.0.1', 'localhost', '0.0.0.0', '::']) {
    t.equal(await dials('127.0.0.1', own(listener)), 'permanent egress_denied', `listener on ${listener}`)
    t.equal(await dials('localhost', own(listener)), 'permanent egress_denied', `by name, on ${listener}`)
    t.ok(checkTargetUrl(`http://127.0.0.1:${port}/v1`, own(listener)), `when it is saved, on ${listener}`)
    t.ok(
      checkTargetUrl(`nats://localhost:${port}`, own(listener)),
      `by name when it is saved, on ${listener}`,
    )
  }
  t.equal(await dials('127.0.0.1', own('127.0.0.9')), 'connected', 'control: another address')
  t.equal(checkTargetUrl('http://127.0.0.1:1/', own('127.0.0.1')), null, 'control: another port')
  const metadata = own('127.0.0.1', 'pipectl')
  t.equal(await dials('127.0.0.1', metadata, 'pipectl'), 'permanent egress_denied')
  t.equal(await dials('127.0.0.1', metadata), 'permanent egress_denied', 'not by another protocol either')
  t.equal(await dials('127.0.0.1', metadata, 'shop'), 'connected', 'another database of the same server')
  t.ok(checkTargetHost('127.0.0.1', metadata, { port, database: 'pipectl' }))
  t.equal(checkTargetHost('127.0.0.1', metadata, { port, database: 'shop' }), null)
})

t.test(
  'where private addresses are denied, a name of one and a name that does not exist look the same',
  async (t) => {
    const dns = await startNameServer({ 'secret.corp.test': '10.1.2.3' })
    t.teardown(() => dns.stop())
    // The look-up remembers it for the dials below, which ask the name servers of this machine.
    await lookUp('secret.corp.test', never, dns.servers)
    // No name server is asked for what cannot be a name.
    const nowhere = `${'x'.repeat(64)}.test`
    const told = async (host: string, policy: EgressPolicy) => {
      const error = await failure(dial({ host, port: 9 }, policy))
      if (!(error instanceof DeliveryError)) return { code: error.code }
      const { code, message, class: errorClass } = error.scrubbed([])
      return { code, message, errorClass }
    }
    for (const policy of [closed, auto(2).policy, { ...open, deny: ['10.0.0.0/8'] }]) {
      const [exists, absent] = [await told('secret.corp.test', policy), await told(nowhere, policy)]
      t.strictSame(exists, absent)
      t.match(exists, { code: 'egress_denied', errorClass: 'transient', message: /egress\.allow/ })
      t.notMatch(exists.message, /secret|10\.1/)
    }
    const denied = await failure(dial({ host: 'secret.corp.test', port: 9 }, closed))
    t.match(denied, { detail: 'secret.corp.test resolves to 10.1.2.3' }, 'the log tells the operator')
    t.match(await failure(dial({ host: nowhere, port: 9 }, closed)), { detail: /EAI_AGAIN|ENOTFOUND/ })
    t.match(
      await told(nowhere, open),
      { code: /EAI_AGAIN|ENOTFOUND/ },
      'control: where nothing is denied it is told',
    )
  },
)

t.test('a driver that was opened under one rule has no connection left under the next', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const { policy, count } = auto(1)
  const spec = makeSpec('destination_http_endpoint', { url: sink.url })
  const driver = openDriver(spec, { databaseTls: false, egress: policy }, anyKey)
  t.teardown(() => driver.close())
  const deliver = () => driver.deliver(makeBatch([[{ v: 1 }]]), never)
  await deliver()
  await deliver()
  t.strictSame(
    sink.deliveries.map((one) => one.connection),
    [1, 1],
    'connections are kept, or this shows nothing',
  )
  count[0] = 2
  t.match(await failure(deliver()), { code: 'egress_denied' })
  t.equal(sink.deliveries.length, 2)
})

/** A policy of which the test says how many workspaces there are. */
function auto(workspaces: number): { policy: EgressPolicy; count: Int32Array } {
  const memory = new SharedArrayBuffer(4)
  const count = new Int32Array(memory)
  count[0] = workspaces
  return { policy: { ...open, private: 'auto', workspaces: memory }, count }
}

async function failure(work: Promise<unknown>): Promise<Error & { code?: string }> {
  try {
    await work
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('it succeeded')
}

t.test(
  'the address that is dialled is checked, and a denial does not tell open from closed ports',
  async (t) => {
    const sink = await startHttpSink()
    t.teardown(() => sink.stop())
    const denying: EgressPolicy = { allow: [], deny: ['127.0.0.0/8', '::1'], private: 'allow' }
    const errors: Error[] = []
    for (const port of [sink.port, 1]) {
      for (const host of ['localhost', '127.0.0.1']) errors.push(await failure(dial({ host, port }, denying)))
    }
    for (const error of errors) {
      t.ok(error instanceof DeliveryError)
      t.match(error, { class: 'permanent', code: 'egress_denied', message: egressDenied(denying).message })
    }
    t.equal(sink.connections(), 0)
    const socket = await dial({ host: 'localhost', port: sink.port }, open)
    t.match(socket.remoteAddress, /127\.0\.0\.1/, 'negative control: the open policy dials')
    socket.destroy()
    t.match(await failure(dial({ host: '127.0.0.1', port: 1 }, open)), { code: 'ECONNREFUSED' })
  },
)

t.test('every driver obeys: the HTTP endpoint, PostgreSQL and the agents for the object store', async (t) => {
  const sink = await startHttpSink()
  const secure = await startHttpSink({ tls: true })
  t.teardown(() => Promise.all([sink.stop(), secure.stop()]))
  const batch = makeBatch([[{ v: 1 }]])
  const settings = { databaseTls: false, egress: closed }
  for (const host of [...always, ...whenClosed].filter((host) => host !== '')) {
    const config = { host, port: sink.port, database: 'd', username: 'u', password: 'p', table: 't' }
    const database = postgresql.open(makeSpec('destination_database', config), settings, anyKey)
    t.match(await failure(database.deliver(batch, never)), { code: 'egress_denied' }, `database ${host}`)
    await database.close()
  }
  for (const host of [
    'localhost',
    '127.0.0.1',
    '0x7f.1',
    '[::ffff:7f00:1]',
    '2130706433',
    '169.254.169.254',
  ]) {
    const endpoint = httpEndpoint.open(
      makeSpec('destination_http_endpoint', { url: `http://${host}:${sink.port}/` }),
      settings,
      anyKey,
    )
    t.match(
      await failure(endpoint.deliver(batch, never)),
      { code: 'egress_denied', failedSeq: 1 },
      `http ${host}`,
    )
    await endpoint.close()
  }
  const request = (url: string, policy: EgressPolicy) => {
    const { httpAgent, httpsAgent } = egressHttpAgents(policy, new ReadLimit())
    const work = new Promise<number>((resolve, reject) => {
      const options = { agent: url.startsWith('https') ? httpsAgent : httpAgent, rejectUnauthorized: false }
      const client = url.startsWith('https') ? https : http
      client.get(url, options, (response) => resolve(response.resume().statusCode ?? 0)).on('error', reject)
    })
    return work.finally(() => {
      httpAgent.destroy()
      httpsAgent.destroy()
    })
  }
  for (const url of [sink.url, secure.url, sink.url.replace('127.0.0.1', 'localhost')]) {
    t.match(await failure(request(url, closed)), { code: 'egress_denied' }, url)
    t.equal(await request(url, open), 200, `${url}: negative control`)
  }
  t.equal(sink.deliveries.length, 2)
})

t.test('a dial that is aborted ends', async (t) => {
  const gone = AbortSignal.abort(new Error('stop'))
  t.match(await failure(dial({ host: '127.0.0.1', port: 1 }, open, { signal: gone })), { message: 'stop' })
})
