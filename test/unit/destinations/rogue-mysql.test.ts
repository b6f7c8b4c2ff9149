/** A rogue MySQL server, or one that is none: whatever it sends and whenever, the attempt ends with a DeliveryError. */
import type { Socket } from 'node:net'
import t from 'tap'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { anyKey, makeBatch, makeSpec, openSettings } from '../../support/batches.ts'
import { greeting, honestMysql, mysqlFaults, packet } from '../../support/rogue/mysql.ts'
import {
  attempt,
  checkFaults,
  checkRandomFaults,
  watchForUncaught,
} from '../../support/rogue/rogue-attempts.ts'
import { commonFaults, goodbye, honestly, startRogue } from '../../support/rogue/rogue-server.ts'

import { until } from '../../support/until.ts'

const uncaught = watchForUncaught()

const open = (port: number, host = '127.0.0.1') =>
  mysql.open(
    makeSpec('destination_database', {
      ...{ host, port, database: 'd', username: 'u', password: 'secret-word', table: 't', dialect: 'mysql' },
    }),
    openSettings,
    anyKey,
  )
const target = { session: () => honestMysql(), open, batch: makeBatch([[{ v: 'x' }]]) }
/** TLS begins between the greeting, which offers it, and the log-in. */
const tlsTarget = {
  ...target,
  host: '127.0.0.2',
  session: () => ({ ...honestMysql(), greeting: greeting(true) }),
  open: (port: number) => open(port, '127.0.0.2'),
}
const faults = { ...commonFaults, ...mysqlFaults }
const steps = 16

t.test('negative control: the honest server takes the batch, in clear and over TLS', async (t) => {
  for (const { session, host } of [{ ...target, host: '127.0.0.1' }, tlsTarget]) {
    const rogue = await startRogue(session, 99, honestly, { host, tls: host === tlsTarget.host })
    t.teardown(() => rogue.stop())
    t.equal(await attempt(open(rogue.port, host), target.batch, 30_000), 'delivered', host)
    t.match(rogue.heard(), /INSERT INTO/)
  }
})

t.test('every fault at the steps that differ', async (t) => {
  t.ok(Object.keys(faults).length >= 50)
  const names: Record<number, string> = {
    0: 'greeting',
    1: 'log-in',
    5: 'facts',
    13: 'prepare',
    14: 'insert',
  }
  for (const [step, name] of Object.entries(names)) await checkFaults(t, target, Number(step), name, faults)
})

t.test('a server behind TLS that misbehaves', async (t) => {
  await checkFaults(t, tlsTarget, 0, 'log-in over TLS', faults)
})

t.test('random faults', async (t) => {
  await checkRandomFaults(t, target, steps)
})

t.test('TLS that is never answered: the attempt is ended from outside, and nothing else is', async (t) => {
  const silent = (socket: Socket) => void socket.write(greeting(true))
  for (const limitMs of [50, 300]) {
    const rogue = await startRogue(honestMysql, 0, silent, { host: '127.0.0.2' })
    t.teardown(() => rogue.stop())
    t.match(await attempt(open(rogue.port, '127.0.0.2'), target.batch, limitMs), { code: 'aborted' })
  }
})

t.test('over TLS that is not verified the password is proved and never sent', async (t) => {
  const requests = {
    'caching_sha2_password in full': [
      packet(3, [0xfe], 'caching_sha2_password\0saltsaltsaltsaltsalt\0'),
      packet(5, [1, 4]),
    ],
    sha256_password: [packet(3, [0xfe], 'sha256_password\0saltsaltsaltsaltsalt\0')],
    mysql_clear_password: [packet(3, [0xfe], 'mysql_clear_password\0')],
  }
  for (const [name, packets] of Object.entries(requests)) {
    const fault = (socket: Socket) => {
      const next = () => {
        const one = packets.shift()
        if (one !== undefined) socket.write(one)
      }
      socket.on('data', next)
      next()
    }
    const rogue = await startRogue(tlsTarget.session, 0, fault, { host: '127.0.0.2', tls: true })
    t.teardown(() => rogue.stop())
    const outcome = await attempt(open(rogue.port, '127.0.0.2'), target.batch)
    t.match(
      outcome,
      { class: 'permanent', code: 'unsafe_authentication', failedSeq: 1, message: /unverified certificate/ },
      name,
    )
    t.notMatch(rogue.heard(), /secret-word/, name)
  }
  // The client uses the plugin that the greeting names at once, without a request of the server.
  for (const plugin of ['sha256_password', 'mysql_clear_password']) {
    const session = () => ({ ...honestMysql(), greeting: greeting(true, plugin) })
    const rogue = await startRogue(session, 0, () => {}, { host: '127.0.0.2', tls: true })
    t.teardown(() => rogue.stop())
    await attempt(open(rogue.port, '127.0.0.2'), target.batch, 500)
    t.notMatch(rogue.heard(), /secret-word/, `${plugin} in the greeting`)
  }
})

t.test('what a server sends during one attempt is bounded, in clear and over TLS', async (t) => {
  for (const one of [
    { ...target, host: '127.0.0.1', step: 5 },
    { ...tlsTarget, step: 4 },
  ]) {
    const isTls = one.host === tlsTarget.host
    const rogue = await startRogue(one.session, one.step, faults['rows without end'] ?? honestly, {
      host: one.host,
      tls: isTls,
    })
    t.teardown(() => rogue.stop())
    const outcome = await attempt(open(rogue.port, one.host), target.batch, 30_000)
    t.match(outcome, { class: 'transient', code: 'response_too_large', message: /8 MiB/ }, one.host)
  }
})

t.test('an idle connection that the server resets ends nothing: the next batch opens another', async (t) => {
  const idle: Socket[] = []
  const session = () => honestMysql()
  const rogue = await startRogue(session, 15, (socket, honest) => {
    idle.push(socket)
    socket.write(honest)
  })
  t.teardown(() => rogue.stop())
  const driver = open(rogue.port)
  t.teardown(() => driver.close())
  for (const round of [1, 2]) {
    await driver.deliver(target.batch, AbortSignal.timeout(30_000))
    idle.pop()?.resetAndDestroy()
    await until('the connection is gone', () => rogue.open() === 0)
    t.pass(`round ${round}`)
  }
})

t.test('a server that does not answer the goodbye: the connection is closed all the same', async (t) => {
  const session = () => {
    const honest = honestMysql()
    return { ...honest, answer: (chunk: Buffer) => honest.answer(chunk).filter((one) => one !== goodbye) }
  }
  const rogue = await startRogue(session, 99, honestly)
  t.teardown(() => rogue.stop())
  t.equal(await attempt(open(rogue.port), target.batch, 30_000), 'delivered')
  await until('the connection is closed', () => rogue.open() === 0, { timeoutMs: 30_000 })
})

t.test('nothing reached the process', async (t) => {
  t.strictSame(
    uncaught.map((error) => (error instanceof Error ? error.stack : error)),
    [],
  )
})
