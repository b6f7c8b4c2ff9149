/** NATS JetStream against real servers: what arrives, under which id, and what is said of what cannot. */
import { readFileSync } from 'node:fs'
import { DiscardPolicy, type JetStreamManager, jetstreamManager, type StreamConfig } from '@nats-io/jetstream'
import { jwtAuthenticator, nkeyAuthenticator } from '@nats-io/transport-node'
import t, { type Test } from 'tap'
import {
  type Batch,
  type DestinationSpec,
  noProgress,
  type RejectedRecord,
} from '../../../src/destinations/driver.ts'
import { checkDestination, openDriver } from '../../../src/destinations/drivers.ts'
import {
  anyKey,
  failureOf,
  makeBatch,
  makeSpec,
  never,
  openSettings,
  sliceBatch,
} from '../../support/batches.ts'
import { type NatsOptions, startNats, type TestNats } from '../../support/nats.ts'
import { newAccount, newUser } from '../../support/nats-users.ts'
import { startElsewhere } from '../../support/rogue/elsewhere.ts'
import { honestNats } from '../../support/rogue/nats.ts'
import { honestly, startRogue } from '../../support/rogue/rogue-server.ts'

const numbers = (from: number, count: number) => Array.from({ length: count }, (_, at) => ({ n: from + at }))
const batch = makeBatch([numbers(0, 3), numbers(3, 1), numbers(4, 6)], 5)

interface World {
  nats: TestNats
  manager: JetStreamManager
  spec(config?: Record<string, unknown>): Extract<DestinationSpec, { type: 'destination_nats' }>
}

/** A server with the stream EVENTS of `events.>`. */
async function start(
  t: Test,
  options: NatsOptions = {},
  config: Record<string, unknown> = {},
  stream: Partial<StreamConfig> = {},
): Promise<World> {
  const nats = await startNats(options)
  t.teardown(() => nats.stop())
  const connection = await nats.connect()
  t.teardown(() => connection.close())
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: 'EVENTS', subjects: ['events.>'], ...stream })
  const url = nats.servers[0]?.url
  return {
    nats,
    manager,
    spec: (more = {}) =>
      makeSpec('destination_nats', { url, subject: 'events.{pipe_name}', ...config, ...more }),
  }
}

function open(t: Test, spec: DestinationSpec) {
  const driver = openDriver(spec, openSettings, anyKey)
  t.teardown(() => driver.close())
  return driver
}

async function stored({ manager }: World, stream = 'EVENTS') {
  const { state } = await manager.streams.info(stream)
  const found = []
  for (let seq = state.first_seq; seq <= state.last_seq; seq += 1) {
    const message = await manager.streams.getMessage(stream, { seq })
    if (message !== null) found.push(message)
  }
  return found
}
const values = async (world: World) => (await stored(world)).map((message) => message.json<{ n: number }>().n)

function keeper() {
  const kept: RejectedRecord[] = []
  const progress = {
    ...noProgress,
    beforeRequest: async () => {},
    stored: () => {},
    park: async (rejected: readonly RejectedRecord[]) => void kept.push(...rejected),
  }
  return { kept, progress }
}

t.test('one plain server', async (t) => {
  const world = await start(t)
  t.beforeEach(() => world.manager.streams.purge('EVENTS'))

  t.test('a record is a message with its own text, its id and the headers of the config', async (t) => {
    const headers = { Source: 'pipectl', 'X-Kind': 'a b' }
    const driver = open(t, world.spec({ headers, stream: 'EVENTS' }))
    await driver.deliver(makeBatch([['{"n":1.10,"big":12345678901234567890}']]), never)
    const [message] = await stored(world)
    t.equal(message?.subject, 'events.orders')
    t.equal(message?.string(), '{"n":1.10,"big":12345678901234567890}')
    t.match(message?.header.get('Nats-Msg-Id'), /^[0-9a-f-]{36}$/)
    t.equal(message?.header.get('Nats-Expected-Stream'), 'EVENTS')
    t.equal(message?.header.get('Source'), 'pipectl')
    t.equal(message?.header.get('X-Kind'), 'a b')
  })

  t.test(
    'a batch that is cut otherwise has the same ids; a rewind and a replay have their own',
    async (t) => {
      const fresh = makeBatch([numbers(0, 3), numbers(3, 2)], 90)
      const driver = open(t, world.spec())
      const count = async () => (await world.manager.streams.info('EVENTS')).state.messages
      await driver.deliver(sliceBatch(fresh, 0, 1), never)
      await driver.deliver({ ...fresh, recordOffset: 2 }, never)
      await driver.deliver(fresh, never)
      t.same(await values(world), [0, 1, 2, 3, 4])
      const rewound: Batch = { ...fresh, generation: 1 }
      await driver.deliver(rewound, never)
      await driver.deliver(rewound, never)
      t.equal(await count(), 10, 'whoever rewinds gets the records again, and once')
      await driver.deliver({ ...fresh, isReplay: true }, never)
      t.equal(await count(), 15, 'what was corrected is no repetition')
    },
  )

  t.test('order is kept with one under way; with 32 every record arrives once', async (t) => {
    const many = makeBatch([numbers(0, 400), numbers(400, 600)], 200)
    await open(t, world.spec()).deliver(many, never)
    t.same(
      await values(world),
      numbers(0, 1000).map(({ n }) => n),
    )
    await world.manager.streams.purge('EVENTS')
    const others = makeBatch([numbers(0, 1000)], 300)
    await open(t, { ...world.spec(), concurrency: 32 }).deliver(others, never)
    t.equal(new Set(await values(world)).size, 1000)
  })

  t.test('a record over max_payload is parked, the others continue', async (t) => {
    const big = { n: 1, pad: 'x'.repeat(1024 * 1024) }
    const mixed = makeBatch([[{ n: 0 }, big], [{ n: 2 }]], 400)
    const { kept, progress } = keeper()
    await open(t, world.spec()).deliver(mixed, never, progress)
    t.same(await values(world), [0, 2])
    t.match(kept, [{ seq: 400, recordIndex: 1, code: 'max_payload', message: /at most 1048576/ }])
    t.match(await failureOf(open(t, world.spec()).deliver(mixed, never)), {
      ...{ class: 'permanent', code: 'max_payload', fault: 'records', failedSeq: 400, storedRecords: 1 },
    })
  })

  t.test('subjects and streams that are not there', async (t) => {
    const nowhere = world.spec({ subject: 'nowhere' })
    const error = await failureOf(open(t, nowhere).deliver(batch, never))
    t.match(error, { class: 'transient', code: 'no_stream', message: /keeps the subject nowhere/ })
    const other = world.spec({ stream: 'OTHERS' })
    t.match(await failureOf(open(t, other).deliver(batch, never)), {
      ...{ class: 'permanent', code: 'jetstream_10060', fault: 'destination', failedSeq: 5 },
    })
    const check = async (spec: DestinationSpec) =>
      (await checkDestination(spec, openSettings, never, null)).map(({ name, ok, message }) => [
        name,
        ok,
        message,
      ])
    t.match(await check(world.spec()), [
      ['connect', true, /Connected to a NATS server/],
      ['stream', true, /EVENTS keeps the subject events.orders/],
    ])
    t.match(await check(nowhere), [[], ['stream', false, /No stream keeps the subject nowhere/]])
    t.match(await check(other), [[], ['stream', false, /by the stream EVENTS, not by OTHERS/]])
    t.match(await check(world.spec({ url: 'nats://127.0.0.1:1' })), [['connect', false, /refused/]])
    t.same(await values(world), [], 'nothing was published')
  })

  t.test('what listens at a subject without being a stream does not count as stored', async (t) => {
    const connection = await world.nats.connect()
    t.teardown(() => connection.close())
    connection.subscribe('echo', { callback: (_, message) => void message.respond('thank you') })
    connection.subscribe('mute', { callback: () => {} })
    await connection.flush()
    const echoed = await failureOf(open(t, world.spec({ subject: 'echo' })).deliver(batch, never))
    t.match(echoed, { class: 'transient', code: 'protocol_error', message: /not an acknowledgement/ })
    const mute = world.spec({ subject: 'mute', timeout_ms: 1000 })
    t.match(await failureOf(open(t, mute).deliver(batch, never)), {
      ...{ class: 'transient', code: 'timeout', timedOut: 'unknown', storedRecords: 0 },
    })
  })

  t.test('servers are tried in turn; a permanent refusal is one of all of them', async (t) => {
    const url = `nats://127.0.0.1:1,${world.nats.servers[0]?.url}`
    const driver = open(t, world.spec({ url }))
    await driver.deliver(batch, never)
    t.equal((await values(world)).length, 10)
  })

  t.test('a lost reply: sent again, kept once', async (t) => {
    const [server] = world.nats.servers
    const driver = open(t, world.spec({ url: server?.proxyUrl }))
    const fresh = makeBatch([numbers(0, 5)], 700)
    server?.proxy.setMode({ kind: 'cut_at_reply', text: '"seq":', times: 1 })
    t.match(await failureOf(driver.deliver(fresh, never)), { class: 'transient', storedRecords: 0 })
    await driver.deliver(fresh, never)
    t.same(await values(world), [0, 1, 2, 3, 4])
  })

  t.test('the server comes back on the same address', async (t) => {
    const driver = open(t, world.spec())
    await driver.deliver(makeBatch([numbers(0, 1)], 800), never)
    await world.nats.servers[0]?.kill()
    t.equal((await failureOf(driver.deliver(batch, never))).class, 'transient')
    await world.nats.servers[0]?.restart()
    await world.nats.ready()
    await driver.deliver(makeBatch([numbers(1, 1)], 801), never)
  })
})

t.test(
  'a stream that is full: transient; one that takes small messages alone: the record is refused',
  async (t) => {
    const full = await start(t, {}, {}, { discard: DiscardPolicy.New, max_msgs: 2 })
    t.match(await failureOf(open(t, full.spec()).deliver(batch, never)), {
      ...{
        class: 'transient',
        code: 'jetstream_10077',
        storedRecords: 2,
        message: /maximum messages exceeded/,
      },
    })
    await full.manager.streams.delete('EVENTS')
    await full.manager.streams.add({ name: 'EVENTS', subjects: ['events.>'], max_msg_size: 300 })
    const { kept, progress } = keeper()
    const mixed = makeBatch([[{ n: 0 }, { n: 1, pad: 'x'.repeat(400) }, { n: 2 }]])
    await open(t, full.spec()).deliver(mixed, never, progress)
    t.match(kept, [{ recordIndex: 1, code: 'jetstream_10054' }])
    t.same(await values(full), [0, 2])
  },
)

t.test('signing in', async (t) => {
  const seen = async (t: Test, world: World) => {
    await open(t, world.spec()).deliver(batch, never)
    t.equal((await values(world)).length, 10)
  }
  const refused = async (t: Test, world: World, config: Record<string, unknown>) =>
    t.match(await failureOf(open(t, world.spec(config)).deliver(batch, never)), {
      ...{ class: 'permanent', code: 'authorization_violation', fault: 'destination', failedSeq: 5 },
    })

  t.test('a token', async (t) => {
    const more = ['authorization { token: "token-word" }']
    const world = await start(t, { more, signIn: { token: 'token-word' } }, { token: 'token-word' })
    await seen(t, world)
    await refused(t, world, { token: 'another' })
    await refused(t, world, { token: null })
  })

  t.test('the seed of a user', async (t) => {
    const { seed, publicKey } = newUser()
    const more = [`authorization { users: [ { nkey: ${publicKey} } ] }`]
    const signIn = { authenticator: nkeyAuthenticator(Buffer.from(seed)) }
    const world = await start(t, { more, signIn }, { nkey_seed: seed })
    await seen(t, world)
    await refused(t, world, { nkey_seed: newUser().seed })
    const broken = `${seed.slice(0, 20)}${seed[20] === 'A' ? 'B' : 'A'}${seed.slice(21)}`
    t.match(await failureOf(open(t, world.spec({ nkey_seed: broken })).deliver(batch, never)), {
      ...{ class: 'permanent', code: 'bad_seed' },
    })
  })

  t.test('a credentials file, with and without its line breaks', async (t) => {
    const { more, credentials, user, jwt } = newAccount()
    const signIn = { authenticator: jwtAuthenticator(jwt, Buffer.from(user.seed)) }
    const world = await start(t, { more, signIn }, { credentials })
    await seen(t, world)
    await open(t, world.spec({ credentials: credentials.replaceAll('\n', ' ') })).deliver(batch, never)
    await refused(t, world, { credentials: newAccount().credentials })
  })

  t.test('a user who may not publish there', async (t) => {
    const more = [
      `authorization { users: [ { user: admin, password: admin }, { user: u, password: p, permissions: { publish: "other" } } ] }`,
    ]
    const signIn = { user: 'admin', pass: 'admin' }
    const world = await start(t, { more, signIn }, { username: 'u', password: 'p' })
    t.match(await failureOf(open(t, world.spec()).deliver(batch, never)), {
      ...{ class: 'permanent', code: 'permissions_violation', failedSeq: 5 },
      message: /Publish to "events.orders"/,
    })
    const [entered, stream] = await checkDestination(world.spec(), openSettings, never, null)
    t.match([entered?.ok, stream?.ok, stream?.message], [true, true, /has no right to request/])
  })
})

t.test('TLS', async (t) => {
  const world = await start(t, { tls: true, asksForCertificates: true })
  const { caFile, keyFile, servers } = world.nats
  const tls_ca = readFileSync(caFile ?? '', 'utf8')
  const [tls_cert, tls_key] = [tls_ca, readFileSync(keyFile ?? '', 'utf8')]
  const url = `tls://127.0.0.1:${servers[0]?.port}`
  const fails = async (config: Record<string, unknown>) =>
    failureOf(open(t, world.spec(config)).deliver(batch, never))

  await open(t, world.spec({ url, tls_ca, tls_cert, tls_key })).deliver(batch, never)
  const [ca, cert, key] = [tls_ca, tls_cert, tls_key].map((pem) => pem.replaceAll('\n', ' '))
  await open(t, world.spec({ url, tls_ca: ca, tls_cert: cert, tls_key: key })).deliver(batch, never)
  await open(t, world.spec({ url, tls_verify: false, tls_cert, tls_key })).deliver(batch, never)
  t.equal((await values(world)).length, 10)
  t.match(await fails({ url, tls_cert, tls_key }), {
    class: 'transient',
    code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
  })
  t.equal((await fails({ url, tls_ca })).class, 'transient', 'without the certificate that is asked for')
  t.match(await fails({}), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'nats:// to a server that asks for TLS')
  t.match(
    await fails({ url, tls_ca, tls_cert, tls_key: key?.replace('M', 'N') }),
    { ...{ class: 'permanent', code: 'tls_config', failedSeq: 5 } },
    'what is refused when it is stored, too',
  )

  const plain = await start(t)
  const tls = `tls://127.0.0.1:${plain.nats.servers[0]?.port}`
  t.match(await failureOf(open(t, plain.spec({ url: tls })).deliver(batch, never)), {
    ...{ class: 'permanent', code: 'no_tls' },
  })
})

t.test(
  'the egress policy holds for every server, and what a server says of others is not followed',
  async (t) => {
    const elsewhere = await startElsewhere()
    t.teardown(() => elsewhere.close())
    const address = new URL(elsewhere.url).host
    const rogue = await startRogue(() => honestNats({ connectUrls: [address] }), 99, honestly)
    t.teardown(() => rogue.stop())
    const spec = makeSpec('destination_nats', { url: `nats://127.0.0.1:${rogue.port}`, subject: 'events' })
    const driver = open(t, spec)
    await driver.deliver(batch, never)
    await rogue.stop()
    t.equal((await failureOf(driver.deliver(batch, never))).class, 'transient')
    t.equal(elsewhere.visits(), 0)

    const settings = { ...openSettings, egress: { allow: [], deny: [], private: 'deny' as const } }
    for (const url of [
      'nats://127.0.0.1:4222',
      'nats://[::1]',
      'tls://localhost',
      'nats://169.254.169.254',
    ]) {
      const denied = openDriver(makeSpec('destination_nats', { url, subject: 'events' }), settings, anyKey)
      t.match(
        await failureOf(denied.deliver(batch, never)),
        { class: 'permanent', code: 'egress_denied' },
        url,
      )
      await denied.close()
    }
  },
)
