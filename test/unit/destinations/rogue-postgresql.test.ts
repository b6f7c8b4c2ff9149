/** A rogue PostgreSQL server, or one that is none: whatever it sends and whenever, the attempt ends with a DeliveryError. */
import type { Socket } from 'node:net'
import t from 'tap'
import type { DriverSettings } from '../../../src/destinations/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { honestPostgres, int32, loggedIn, message, postgresFaults } from '../../support/rogue/postgresql.ts'
import {
  attempt,
  checkFaults,
  checkRandomFaults,
  watchForUncaught,
} from '../../support/rogue/rogue-attempts.ts'
import { commonFaults, honestly, startRogue } from '../../support/rogue/rogue-server.ts'

const uncaught = watchForUncaught()

const steps = ['log-in', 'settings', 'table', 'insert']
const open = (port: number, settings: DriverSettings = openSettings, host = '127.0.0.1') =>
  postgresql.open(
    makeSpec('destination_database', {
      ...{ host, port, database: 'd', username: 'u', password: 'secret-word', table: 't' },
    }),
    settings,
    anyKey,
  )
const target = { session: honestPostgres, open, batch: makeBatch([[{ v: 'x' }]]) }

t.test('negative control: the honest server takes the batch', async (t) => {
  const rogue = await startRogue(honestPostgres, 99, honestly)
  t.teardown(() => rogue.stop())
  t.equal(await attempt(open(rogue.port), target.batch), 'delivered')
})

t.test('every fault at every step', async (t) => {
  const faults = { ...commonFaults, ...postgresFaults }
  t.ok(Object.keys(faults).length >= 50)
  for (const [step, name] of steps.entries()) await checkFaults(t, target, step, name, faults)
})

t.test('random faults', async (t) => {
  await checkRandomFaults(t, target, steps.length)
})

t.test('a MySQL server is called by its name, before and after the question for TLS', async (t) => {
  for (const bytes of [68, 78, 82, 83, 84, 116]) {
    const fault =
      postgresFaults[Object.keys(postgresFaults).find((name) => name.includes(`${bytes} bytes`)) ?? '']
    if (fault === undefined) throw new Error('no such fault')
    for (const databaseTls of [false, true]) {
      const rogue = await startRogue(() => ({ ...honestPostgres(), greeting: Buffer.from('x') }), 0, fault)
      t.teardown(() => rogue.stop())
      const outcome = await attempt(open(rogue.port, { ...openSettings, databaseTls }), target.batch)
      t.match(outcome, { class: 'permanent', code: 'wrong_server', failedSeq: 1, message: /MySQL server/ })
    }
  }
})

const overTls = async (t: { teardown(end: () => unknown): unknown }, ...messages: Buffer[]) => {
  const fault = (socket: Socket) => void socket.write(Buffer.concat(messages))
  const rogue = await startRogue(honestPostgres, 0, fault, { host: '127.0.0.2', tls: true })
  t.teardown(() => rogue.stop())
  const outcome = await attempt(open(rogue.port, openSettings, '127.0.0.2'), target.batch)
  return { outcome, heard: rogue.heard() }
}

t.test('over TLS that is not verified the password is proved with SCRAM and never sent', async (t) => {
  for (const request of [message('R', int32(3)), message('R', int32(5), 'salt')]) {
    const { outcome, heard } = await overTls(t, request)
    t.match(outcome, {
      class: 'permanent',
      code: 'unsafe_authentication',
      failedSeq: 1,
      message: /scram-sha-256/,
    })
    t.match(heard, /pipectl/, 'the log-in was begun')
    t.notMatch(heard, /secret-word|md5/)
  }
  const scram = await overTls(t, message('R', int32(10), 'SCRAM-SHA-256\0\0'))
  t.match(scram.heard, /SCRAM-SHA-256/, 'SCRAM is begun')
  const wavedThrough = await overTls(t, message('R', int32(10), 'SCRAM-SHA-256\0\0'), loggedIn)
  t.match(wavedThrough.outcome, { code: 'protocol_error' }, 'a server that proves nothing is refused')
})

t.test('the operator may allow a password in clear', async (t) => {
  const fault = (socket: Socket) => void socket.write(message('R', int32(3)))
  const rogue = await startRogue(honestPostgres, 0, fault, { host: '127.0.0.2', tls: true })
  t.teardown(() => rogue.stop())
  const lenient = { ...openSettings, databasePasswordInClear: true }
  await attempt(open(rogue.port, lenient, '127.0.0.2'), target.batch, 500)
  t.match(rogue.heard(), /secret-word/)
})

t.test('this very machine may ask for the password as it likes', async (t) => {
  const fault = (socket: Socket) => void socket.write(message('R', int32(3)))
  const rogue = await startRogue(honestPostgres, 0, fault)
  t.teardown(() => rogue.stop())
  await attempt(open(rogue.port), target.batch, 300)
  t.match(rogue.heard(), /secret-word/)
})

t.test('a server behind TLS that misbehaves', async (t) => {
  const faults = { ...commonFaults, ...postgresFaults }
  const tlsTarget = {
    ...target,
    host: '127.0.0.2',
    open: (port: number) => open(port, openSettings, '127.0.0.2'),
  }
  await checkFaults(t, tlsTarget, 0, 'log-in over TLS', faults)
})

t.test('what a server sends during one attempt is bounded, in clear and over TLS', async (t) => {
  for (const host of ['127.0.0.1', '127.0.0.2']) {
    const rogue = await startRogue(honestPostgres, 3, postgresFaults['rows without end'] ?? honestly, {
      host,
      tls: host !== '127.0.0.1',
    })
    t.teardown(() => rogue.stop())
    t.match(await attempt(open(rogue.port, openSettings, host), target.batch, 30_000), {
      class: 'transient',
      code: 'response_too_large',
      message: /8 MiB/,
    })
  }
})

t.test('many batches on one connection each have the whole measure', async (t) => {
  const notice = message('N', `SNOTICE\0M${'x'.repeat(1_000_000)}\0`, '\0')
  const rogue = await startRogue(
    () => {
      const session = honestPostgres()
      return {
        ...session,
        answer: (chunk) => session.answer(chunk).map((honest) => Buffer.concat([notice, honest])),
      }
    },
    1_000,
    honestly,
  )
  t.teardown(() => rogue.stop())
  const driver = open(rogue.port)
  t.teardown(() => driver.close())
  for (let seq = 1; seq <= 30; seq++) await driver.deliver(makeBatch([[{ v: 'x' }]], seq), never)
  t.equal(rogue.open(), 1)
})

t.test('nothing reached the process', async (t) => {
  t.strictSame(
    uncaught.map((error) => (error instanceof Error ? error.stack : error)),
    [],
  )
})
