/** Idempotency keys of a cluster: one message for a key, whatever ends or stands still between the claim, the stream and the answer. */
import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { bufferSubjects, streamName } from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamBuffer } from '../../../src/cluster/jetstream/open-buffer.ts'
import { BufferUnavailableError, IdempotencyKeyReusedError } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import type { KeyStore } from '../../../src/log/key-store.ts'
import { openPortAppender } from '../../../src/stores/open-log.ts'
import { until } from '../../support/until.ts'
import { jetStreamSpec, keysFor, natsFor, readerOf } from './jetstream-open.ts'
import { idempotent, message, newPipeId, quiet, readAll, textsOf } from './open.ts'

const hourMs = 3_600_000
const databases = await keysFor(t)

async function openNode(t: Test, spec: JetStreamSpec, keys: KeyStore) {
  const buffer = await openJetStreamBuffer(spec, {
    ...{ log: quiet, keys },
    onFatal(error) {
      throw error
    },
  })
  t.teardown(() => buffer.close())
  return buffer
}

for (const replicas of [1, 3] as const)
  t.test(replicas === 1 ? 'one server' : 'a cluster of three', async (t) => {
    const nats = await natsFor(t, replicas)

    /** A cluster of its own; `node` opens one more node. */
    async function cluster(t: Test) {
      const spec = jetStreamSpec(t, nats)
      const { keys, query } = await databases.create(t)
      const reader = await readerOf(t, spec)
      return {
        ...{ spec, keys, query },
        node: (own: Partial<KeyStore> = {}) => openNode(t, spec, { ...keys, ...own }),
        stored: async (pipeId: string) => textsOf(await readAll(reader, pipeId)),
        pending: async () => Number((await query('SELECT count(*) FROM key_claims'))[0]?.count),
      }
    }

    t.test('of 100 requests at once, over two nodes and two threads, one is kept', async (t) => {
      const { node, stored, pending } = await cluster(t)
      const nodes = [await node(), await node()]
      const appenders = [
        ...nodes.map(({ appender }) => appender),
        ...(await Promise.all(nodes.map((one) => openPortAppender(one.shareAppender())))),
      ]
      const pipeId = newPipeId()
      const key = idempotent('order-4711')
      const appended = await Promise.all(
        Array.from({ length: 100 }, (_, n) =>
          appenders[n % 4]!.append(message(pipeId, `${n}`, { ...key, recordCount: 3 })),
        ),
      )
      t.equal(appended.filter(({ repeated }) => !repeated).length, 1)
      t.equal(new Set(appended.map(({ seq }) => seq)).size, 1)
      t.equal(new Set(appended.map(({ msgId }) => msgId)).size, 1)
      t.ok(appended.every(({ recordCount }) => recordCount === 3))
      t.equal((await stored(pipeId)).length, 1)
      await Promise.all(appenders.slice(2).map((appender) => appender.drain()))
      await until('it is settled', async () => (await pending()) === 0)
    })

    t.test('another body is refused, another pipe is another key, no key is no key', async (t) => {
      const { node } = await cluster(t)
      const { appender } = await node()
      const [pipeId, other] = [newPipeId(), newPipeId()]
      const first = await appender.append(message(pipeId, 'x', idempotent('k', 'h1')))
      await t.rejects(appender.append(message(pipeId, 'y', idempotent('k', 'h2'))), IdempotencyKeyReusedError)
      t.notOk((await appender.append(message(other, 'x', idempotent('k', 'h1')))).repeated)
      t.notOk((await appender.append(message(pipeId, 'x'))).repeated)
      t.same(await appender.findRepeat(pipeId, { key: 'k', bodyHash: 'h1' }), { ...first, repeated: true })
      t.equal(await appender.findRepeat(pipeId, { key: 'k', bodyHash: 'h2' }), 'reused')
      t.equal(await appender.findRepeat(pipeId, { key: 'free', bodyHash: 'h1' }), null)
    })

    t.test('keys share frames, and a subject for each pipe', async (t) => {
      const { spec, node, stored } = await cluster(t)
      const { appender } = await node()
      const pipes = [newPipeId(), newPipeId()]
      const send = (from: number) =>
        Promise.all(
          Array.from({ length: 500 }, (_, n) =>
            appender.append(message(pipes[n % 2]!, `${from + n}`, idempotent(`key ${from + n}`))),
          ),
        )
      await send(0)
      await send(500)
      const connection = await nats.connect()
      t.teardown(() => connection.close())
      const { state } = await (await jetstreamManager(connection)).streams.info(streamName(spec.cluster), {
        subjects_filter: bufferSubjects(spec.cluster),
      })
      t.equal(Object.keys(state.subjects ?? {}).length, 2, 'one for each pipe')
      t.ok(state.messages < 100, `${state.messages} frames`)
      for (const [index, pipeId] of pipes.entries()) {
        const texts = await stored(pipeId)
        t.same(
          texts.map(Number),
          [...texts.map(Number)].sort((a, b) => a - b),
          'in order',
        )
        t.equal(texts.length, 500, `pipe ${index}`)
      }
    })

    t.test('a key is free again 24 h after its use: of 20 at once, one is kept', async (t) => {
      const { node, stored, query } = await cluster(t)
      const { appender } = await node()
      const pipeId = newPipeId()
      const send = (hash: string) => appender.append(message(pipeId, hash, idempotent('k', hash)))
      const pass = async (ms: number) => {
        for (let table = 0; table < 6; table += 1)
          await query(`UPDATE used_keys_${table} SET used_ms = used_ms - ${ms}`)
      }
      const old = await send('old')
      await until(
        'it is settled',
        async () => (await appender.findRepeat(pipeId, idempotent('k', 'old').idempotency)) !== null,
      )
      await pass(24 * hourMs - 60_000)
      t.equal((await send('old')).msgId, old.msgId, 'a minute is left')
      await pass(60_000)
      t.equal(await appender.findRepeat(pipeId, idempotent('k', 'old').idempotency), null)
      const fresh = await Promise.all(Array.from({ length: 20 }, () => send('new')))
      t.equal(fresh.filter(({ repeated }) => !repeated).length, 1)
      t.same(await stored(pipeId), ['old', 'new'])
    })

    t.test(
      'a node ends after its frame was stored, before it said so: a repeat gets that message',
      async (t) => {
        const { node, stored, pending } = await cluster(t)
        const ending = await node({ settle: () => Promise.reject(new Error('it has ended')) })
        const pipeId = newPipeId()
        const first = await ending.appender.append(message(pipeId, 'x', idempotent('k')))
        t.equal(await pending(), 1)
        const other = await node()
        t.same(await other.appender.append(message(pipeId, 'y', idempotent('k'))), {
          ...first,
          repeated: true,
        })
        t.same(await stored(pipeId), ['x'])
        t.equal(await pending(), 0)
      },
    )

    t.test('a node ends after its claim: a repeat is stored', async (t) => {
      const { node, keys, stored, pending } = await cluster(t)
      const ending = await node({
        async claim(claims) {
          await keys.claim(claims)
          throw new Error('it has ended')
        },
      })
      const pipeId = newPipeId()
      await t.rejects(ending.appender.append(message(pipeId, 'x', idempotent('k'))), BufferUnavailableError)
      t.equal(await pending(), 1)
      const other = await node()
      const second = await other.appender.append(message(pipeId, 'y', idempotent('k')))
      t.notOk(second.repeated)
      t.same(await stored(pipeId), ['y'])
    })

    for (const isPurged of [false, true])
      t.test(
        `a node stands still after its claim until another has stored the key${isPurged ? ', and all is purged' : ''}`,
        async (t) => {
          const { spec, node, keys, stored } = await cluster(t)
          let wakeUp = () => {}
          const asleep = new Promise<void>((resolve) => {
            wakeUp = resolve
          })
          let isClaimed = false
          const sleeping = await node({
            async claim(claims) {
              const found = await keys.claim(claims)
              if (!isClaimed) {
                isClaimed = true
                await asleep
              }
              return found
            },
          })
          const pipeId = newPipeId()
          const late = sleeping.appender.append(message(pipeId, 'late', idempotent('k')))
          const alone = sleeping.appender.append(message(pipeId, 'alone', idempotent('another')))
          await until('it has its claims', () => isClaimed)
          const other = await node()
          const stolen = await other.appender.append(message(pipeId, 'first', idempotent('k')))
          t.notOk(stolen.repeated)
          if (isPurged) {
            const connection = await nats.connect()
            await (await jetstreamManager(connection)).streams.purge(streamName(spec.cluster))
            await connection.close()
          }
          wakeUp()
          t.same(await late, { ...stolen, repeated: true })
          t.notOk((await alone).repeated, 'what shared its frame is stored all the same')
          t.same(await stored(pipeId), isPurged ? ['alone'] : ['first', 'alone'])
        },
      )

    t.test(
      'a frame that is published when its claim was settled by another is refused at any time',
      async (t) => {
        const { spec, node, keys, stored, query } = await cluster(t)
        const connection = await nats.connect()
        t.teardown(() => connection.close())
        // Its publish reaches the server late: the same bytes, on another connection.
        const pipeId = newPipeId()
        const ending = await node({
          async claim(claims) {
            await keys.claim(claims)
            throw new Error('it has ended')
          },
        })
        await t.rejects(ending.appender.append(message(pipeId, 'x', idempotent('k'))), BufferUnavailableError)
        const [claim] = await query('SELECT * FROM key_claims')
        const other = await node()
        await other.appender.append(message(pipeId, 'y', idempotent('k')))
        const { headers } = await import('@nats-io/transport-node')
        const late = headers()
        late.append('Nats-Expected-Last-Subject-Sequence', String(claim?.after_seq))
        for (const id of [String(claim?.attempt_id), 'after the duplicate window']) {
          late.set('Nats-Msg-Id', id)
          const subject = `pipectl.${spec.cluster}.buffer.${pipeId}.k.${claim?.chain}`
          const answer = (await connection.request(subject, 'late', { headers: late, timeout: 5_000 })).json<{
            duplicate?: boolean
            error?: { err_code: number }
          }>()
          t.ok(answer.duplicate === true || answer.error?.err_code === 10_071, JSON.stringify(answer))
        }
        t.same(await stored(pipeId), ['y'])
      },
    )

    t.test('claims of nodes that ended are settled without a repeat', async (t) => {
      const { node, keys, stored, pending, query } = await cluster(t)
      const silent = () => Promise.reject(new Error('it has ended'))
      const acknowledged = await node({ settle: silent })
      const claimed = await node({
        async claim(claims) {
          await keys.claim(claims)
          return await silent()
        },
      })
      const pipeId = newPipeId()
      const first = await acknowledged.appender.append(message(pipeId, 'x', idempotent('stored')))
      await t.rejects(
        claimed.appender.append(message(pipeId, 'y', idempotent('not stored'))),
        BufferUnavailableError,
      )
      t.equal(await pending(), 2)
      await query('UPDATE key_claims SET claimed_ms = claimed_ms - 61000')
      const { JetStreamAppender } = await import('../../../src/cluster/jetstream/appender.ts')
      const other = (await node()).appender
      t.ok(other instanceof JetStreamAppender)
      if (other instanceof JetStreamAppender) await other.settleKeyClaims(60_000)
      t.equal(await pending(), 0)
      t.same(await other.findRepeat(pipeId, idempotent('stored').idempotency), { ...first, repeated: true })
      t.equal(await other.findRepeat(pipeId, idempotent('not stored').idempotency), null)
      t.same(await stored(pipeId), ['x'])
    })

    t.test('without the database a request with a key is rejected, one without is stored', async (t) => {
      const { node, stored } = await cluster(t)
      const away = () => Promise.reject(new Error('the database is away'))
      const { appender } = await node({ find: away, claim: away })
      const pipeId = newPipeId()
      await t.rejects(appender.append(message(pipeId, 'x', idempotent('k'))), BufferUnavailableError)
      await t.rejects(appender.findRepeat(pipeId, idempotent('k').idempotency), BufferUnavailableError)
      await appender.append(message(pipeId, 'plain'))
      t.same(await stored(pipeId), ['plain'])
    })
  })
