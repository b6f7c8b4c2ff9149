/**
 * Servers die, pause and lose their connections while four nodes append: what was acknowledged is in the stream, once, and in the order
 * in which it was acknowledged to whoever sent one after the other. With a negative control: who acknowledges before the stream does
 * loses messages in the same run.
 */
import t from 'tap'
import type { NewMessage, OpenBuffer } from '../../../src/log/buffer.ts'
import { until } from '../../support/until.ts'
import {
  countOf,
  fine,
  leaderOf,
  load,
  moreAcknowledged,
  natsWith,
  open,
  verdictOf,
  withClusterOfThree,
} from './jetstream-load.ts'
import { jetStreamSpec, readerOf } from './jetstream-open.ts'
import { KiB, MiB, message, newPipeId, readAll } from './open.ts'

t.test('the leader of three is killed again and again', async (t) => {
  const pipes = [newPipeId(), newPipeId(), newPipeId()]
  await withClusterOfThree(t, async (nats) => {
    const spec = jetStreamSpec(t, nats)
    const buffers = await Promise.all([open(t, spec), open(t, spec)])
    const ledger = await load(buffers, pipes, async (ledger) => {
      for (let round = 0; round < 3; round += 1) {
        await moreAcknowledged(ledger, 500)
        const leader = await until('a leader', () => leaderOf(nats, spec))
        await leader.kill()
        await moreAcknowledged(ledger, 500)
        await leader.restart()
      }
      await moreAcknowledged(ledger, 500)
    })
    t.same(await verdictOf(t, spec, pipes, ledger), fine)
    t.ok(ledger.rejected > 0, 'the faults were felt')
    t.ok(ledger.slowestMs < 9_000, `nobody waits much longer than 5 s: ${Math.round(ledger.slowestMs)} ms`)
  })
})

t.test('without a majority of three nothing is accepted, and with it again', async (t) => {
  const pipes = [newPipeId(), newPipeId(), newPipeId()]
  await withClusterOfThree(t, async (nats) => {
    const spec = jetStreamSpec(t, nats)
    const buffer = await open(t, spec)
    const ledger = await load([buffer], pipes, async (ledger) => {
      await moreAcknowledged(ledger, 300)
      const [, ...others] = nats.servers
      await Promise.all(others.map((server) => server.kill()))
      const { rejected } = ledger
      await until('all are told', () => ledger.rejected >= rejected + 24)
      const at = countOf(ledger)
      await until('all are told again', () => ledger.rejected >= rejected + 48)
      t.equal(countOf(ledger), at, 'nothing is acknowledged')
      await until(
        'the status says so',
        async () => (await buffer.status()).unavailableReason === 'write_failed',
      )
      await Promise.all(others.map((server) => server.restart()))
      await moreAcknowledged(ledger, 300)
    })
    t.same(await verdictOf(t, spec, pipes, ledger), fine)
    await until('all is well', async () => (await buffer.status()).unavailableReason === null)
  })
})

t.test('one server', async (t) => {
  const nats = await natsWith(t, {})
  const [server] = nats.servers
  const pipes = [newPipeId(), newPipeId()]

  t.test('it is killed under load, and comes back', async (t) => {
    const spec = jetStreamSpec(t, nats)
    const buffers = await Promise.all([open(t, spec), open(t, spec)])
    const ledger = await load(buffers, pipes, async (ledger) => {
      for (let round = 0; round < 3; round += 1) {
        await moreAcknowledged(ledger, 500)
        await server!.kill()
        await server!.restart()
      }
      await moreAcknowledged(ledger, 500)
    })
    t.same(await verdictOf(t, spec, pipes, ledger), fine)
    t.ok(ledger.rejected > 0, 'the faults were felt')
  })

  t.test(
    'negative control: acknowledged before the stream has it, the same run loses messages',
    async (t) => {
      const spec = jetStreamSpec(t, nats)
      const buffers = await Promise.all([open(t, spec), open(t, spec)])
      const hasty = async (buffer: OpenBuffer, one: NewMessage) => {
        buffer.appender.append(one).catch(() => {})
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
      const ledger = await load(
        buffers,
        pipes,
        async (ledger) => {
          await moreAcknowledged(ledger, 500)
          await server!.kill()
          await moreAcknowledged(ledger, 500)
          await server!.restart()
          await until('it is connected', async () => (await buffers[0]!.status()).unavailableReason === null)
        },
        hasty,
      )
      t.ok((await verdictOf(t, spec, pipes, ledger)).missing > 0)
    },
  )

  t.test('a connection that is held, cut and reset in the middle of a publish', async (t) => {
    const spec = jetStreamSpec(t, nats)
    const behind = { ...spec, nats: { ...spec.nats, servers: nats.proxyUrl.split(',') } }
    const buffers = [await open(t, behind), await open(t, behind)]
    const { proxy } = server!
    const ledger = await load(buffers, pipes, async (ledger) => {
      await moreAcknowledged(ledger, 500)
      proxy.setMode({ kind: 'hold' })
      const { rejected } = ledger
      await until('all are told', () => ledger.rejected >= rejected + 24)
      t.ok(ledger.slowestMs < 9_000, `${Math.round(ledger.slowestMs)} ms`)
      proxy.setMode({ kind: 'pass' })
      await moreAcknowledged(ledger, 500)
      proxy.cut()
      await moreAcknowledged(ledger, 300)
      // The stream has the frame, and its acknowledgement is lost.
      proxy.setMode({ kind: 'cut_at_reply', text: '"stream":', times: 5 })
      await moreAcknowledged(ledger, 500)
    })
    t.same(await verdictOf(t, spec, pipes, ledger), fine)
  })

  t.test('a full stream takes nothing, keeps what it has, and takes more when there is room', async (t) => {
    const spec = jetStreamSpec(t, nats, { maxBytes: 2 * MiB })
    const buffer = await open(t, spec)
    const pipeId = newPipeId()
    let kept = 0
    const fill = async () => {
      for (;;) {
        await buffer.appender.append(message(pipeId, Buffer.alloc(100 * KiB)))
        kept += 1
      }
    }
    await t.rejects(fill(), { name: 'BufferUnavailableError', message: /buffer\.max_bytes/ })
    t.ok(kept > 15 && kept < 21, `${kept} messages of 100 KiB`)
    await until('the status says so', async () => (await buffer.status()).unavailableReason === 'over_quota')
    const wider = await open(t, { ...spec, maxBytes: 4 * MiB })
    await until('there is room', async () => (await buffer.status()).unavailableReason === null)
    await wider.appender.append(message(pipeId, 'x'))
    await buffer.appender.append(message(pipeId, 'x'))
    t.equal((await readAll(await readerOf(t, spec), pipeId)).length, kept + 2)
  })
})
