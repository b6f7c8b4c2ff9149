/**
 * Events that the reader of a buffer in JetStream has to handle in addition to the port: purges, age, damage, servers
 * that come and go.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { openJetStreamFeed } from '../../../src/cluster/jetstream/feed.ts'
import { FramePull } from '../../../src/cluster/jetstream/frame-pull.ts'
import {
  droppedSubject,
  pipeSubjects,
  seqOf,
  streamName,
  streamSeqOf,
} from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamLookup } from '../../../src/cluster/jetstream/lookup.ts'
import { openJetStreamReader } from '../../../src/cluster/jetstream/reader.ts'
import { StreamClient } from '../../../src/cluster/jetstream/stream-client.ts'
import { connectNats } from '../../../src/cluster/nats/connect.ts'
import type { BufferReader, CursorMark, MarkedMessage } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import { openLog } from '../../../src/platform/log.ts'
import { openBuffer } from '../../../src/stores/open-log.ts'
import type { TestNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'
import { jetStreamSpec, natsFor, publishFrame, readerOf } from './jetstream-open.ts'
import { countOf, idempotent, MiB, message, newPipeId, quiet, textsOf } from './open.ts'

const plenty = { maxRecords: 100_000, maxBytes: 64 * MiB }
const owner = () => true

/** Both streams, as the writing side makes them, and a connection to publish with. */
async function clusterOn(t: Test, nats: TestNats, overrides: Partial<JetStreamSpec> = {}) {
  const spec = jetStreamSpec(t, nats, overrides)
  const onFatal = (error: Error) => t.fail(error.message)
  await (await openBuffer(spec, { log: quiet, onFatal })).close()
  const connection = await connectNats(spec.nats)
  t.teardown(() => connection.close())
  const manager = await jetstreamManager(connection)
  const send = (pipeId: string, ...texts: string[]) =>
    publishFrame(
      connection,
      spec,
      texts.map((text) => message(pipeId, text)),
    )
  const purge = async (pipeId: string, beforeSeq: number) => {
    const filter = pipeSubjects({ cluster: spec.cluster, pipeId })
    await manager.streams.purge(streamName(spec.cluster), { filter, seq: streamSeqOf(beforeSeq) })
    connection.publish(droppedSubject(spec.cluster))
    await connection.flush()
  }
  return { spec, connection, manager, send, purge }
}

/** As a lane reads: from a cursor with its mark, run by run. */
async function follow(reader: BufferReader, pipeId: string, maxRecords = 10): Promise<MarkedMessage[]> {
  const all: MarkedMessage[] = []
  let cursor: { seq: number; mark: CursorMark | null } = { seq: 0, mark: null }
  for (;;) {
    const limits = { maxRecords, maxBytes: MiB, afterMark: cursor.mark }
    const { messages, more, lost, damaged } = await reader.read(pipeId, cursor.seq, limits)
    if (lost.length > 0 || damaged.length > 0) throw new Error('something is missing')
    all.push(...messages)
    cursor = messages.at(-1) ?? cursor
    if (!more) return all
  }
}

t.test('one server', async (t) => {
  const nats = await natsFor(t)

  t.test('a cursor in the middle of a frame, cold and warm', async (t) => {
    const { spec, send } = await clusterOn(t, nats)
    const pipeId = newPipeId()
    const seqs = [...(await send(pipeId, 'a', 'bb', 'ccc')), ...(await send(pipeId, 'dddd', 'eeeee'))]
    for (const [n, seq] of seqs.entries()) {
      const cold = await readerOf(t, spec)
      const warm = await readerOf(t, spec)
      await follow(warm, pipeId, 2)
      for (const reader of [cold, warm]) {
        const cursor = await reader.cursorAt(pipeId, seq)
        t.equal(cursor.seq, seq)
        t.equal(cursor.mark, `[${n + 1},${n + 1},${((n + 1) * (n + 2)) / 2}]`)
        const run = await reader.read(pipeId, seq, { ...plenty, afterMark: cursor.mark })
        t.same(textsOf(run.messages), ['a', 'bb', 'ccc', 'dddd', 'eeeee'].slice(n + 1))
        t.equal(run.messages.at(-1)?.mark ?? '[5,5,15]', '[5,5,15]')
        t.equal((await reader.backlog(pipeId, cursor)).messages, 4 - n)
        t.same(
          textsOf((await reader.read(pipeId, seq - 1, { maxRecords: 1, maxBytes: 1 })).messages),
          [['a', 'bb', 'ccc', 'dddd', 'eeeee'][n]],
          'the message itself',
        )
      }
    }
    const reader = await readerOf(t, spec)
    const through = await reader.read(pipeId, seqs[0]!, { ...plenty, throughSeq: seqs[3]! })
    t.same(textsOf(through.messages), ['bb', 'ccc', 'dddd'])
  })

  t.test('a consumer gets nothing that a consumer of another client has asked for', async (t) => {
    const { spec, send } = await clusterOn(t, nats)
    const [waiting, reading] = [newPipeId(), newPipeId()]
    const seqs = await send(reading, 'for the other')
    const pullOf = async (pipeId: string) => {
      const connection = await connectNats(spec.nats)
      t.teardown(() => connection.close())
      const client = new StreamClient(connection, streamName(spec.cluster), spec.replicas)
      const filter = pipeSubjects({ cluster: spec.cluster, pipeId })
      const plan = { filter, start: { streamSeq: 1 }, headersOnly: false }
      const pull = await FramePull.open(client, plan, { messages: 10, bytes: MiB })
      t.teardown(() => pull.close())
      return { pull, connection }
    }
    const idle = await pullOf(waiting)
    const busy = await pullOf(reading)
    t.equal((await busy.pull.next())?.streamSeq, streamSeqOf(seqs[0]!))
    // What the server has sent until now has arrived.
    await idle.connection.flush()
    t.equal(idle.pull.shift(), null)
    t.notOk(idle.pull.isBroken)
  })

  t.test('frames of several writers, with keys and without, are one pipe', async (t) => {
    const { spec, connection } = await clusterOn(t, nats)
    const other = await nats.connect()
    t.teardown(() => other.close())
    const pipeId = newPipeId()
    const reader = await readerOf(t, spec)
    const seqs: number[] = []
    for (let n = 0; n < 200; n += 1) {
      const writer = n % 2 === 0 ? connection : other
      const key = n % 5 === 0 ? idempotent(`key ${n}`) : {}
      seqs.push(...(await publishFrame(writer, spec, [message(pipeId, `record ${n}`, key)])))
      if (n % 50 === 0) t.equal((await countOf(reader, pipeId)).messages, n + 1)
    }
    const texts = Array.from({ length: 200 }, (_, n) => `record ${n}`)
    const read = await follow(reader, pipeId, 7)
    t.same(textsOf(read), texts)
    t.same(
      read.map(({ seq }) => seq),
      seqs,
    )
    const bytes = texts.join('').length
    t.equal(read.at(-1)?.mark, `[200,200,${bytes}]`)
    t.same(await countOf(reader, pipeId), { messages: 200, records: 200, bytes })
    const cold = await readerOf(t, spec)
    t.same(await countOf(cold, pipeId), { messages: 200, records: 200, bytes })
  })

  t.test(
    'what is purged is counted for who had not read it, also after everything began again',
    async (t) => {
      const { spec, send, purge } = await clusterOn(t, nats)
      const pipeId = newPipeId()
      const seqs: number[] = []
      for (let n = 0; n < 20; n += 1) seqs.push(...(await send(pipeId, 'xx', 'yy')))
      const reader = await openJetStreamReader(spec, openLog(quiet, 'test'), { owns: owner })
      const at4 = await reader.cursorAt(pipeId, seqs[3]!)
      const head = await reader.head(pipeId)
      t.same(await reader.earliest(pipeId), { seq: 0, mark: '[0,0,0]' })
      await purge(pipeId, seqs[10]!)
      const dropped = await until('it is noticed', async () => {
        const earliest = await reader.earliest(pipeId)
        return earliest.seq > 0 ? earliest : null
      })
      t.equal(dropped.mark, '[10,10,20]')
      t.ok(dropped.seq >= seqs[9]! && dropped.seq < seqs[10]!)
      t.same(await reader.backlog(pipeId, at4, dropped.seq), { messages: 6, records: 6, bytes: 12 })
      t.same(await reader.cursorAt(pipeId, seqs[2]!), dropped, 'clamped to what is kept')
      const run = await reader.read(pipeId, at4.seq, { ...plenty, afterMark: at4.mark })
      t.match(run.lost, [{ firstSeq: at4.seq + 1, messages: 6, to: { mark: '[10,10,20]' } }])
      t.equal(run.messages.length, 0)
      const on = await reader.read(pipeId, run.lost[0]!.to.seq, {
        ...plenty,
        afterMark: run.lost[0]!.to.mark,
      })
      t.equal(on.messages.length, 30)
      t.equal(on.messages[0]?.seq, seqs[10])
      // It writes its checkpoint when it ends.
      await reader.close()
      const again = await readerOf(t, spec)
      t.same(await again.head(pipeId), head)
      t.equal((await again.earliest(pipeId)).mark, '[10,10,20]')
      t.same(await again.backlog(pipeId, at4), { messages: 36, records: 36, bytes: 72 })
      t.equal((await again.cursorAt(pipeId, seqs[20]!)).mark, '[21,21,42]')
      t.same(await again.relocate(pipeId, at4), { cursor: at4, missing: 0 })
      await purge(pipeId, head.seq + 1024)
      await until('all of it is gone', async () => (await again.earliest(pipeId)).seq === head.seq)
      t.same(await again.head(pipeId), head, 'a pipe that is empty still knows what it had')
      const [next] = await send(pipeId, 'later')
      t.same(await again.head(pipeId), { seq: next, mark: '[41,41,85]' })
      // The negative control: without a checkpoint totals begin again.
      const other = newPipeId()
      for (let n = 0; n < 4; n += 1) await send(other, 'x')
      await purge(other, (await again.head(other)).seq)
      t.equal((await (await readerOf(t, spec)).head(other)).mark, '[1,1,1]')
    },
  )

  t.test('a message that the disk lost is reported where it was', async (t) => {
    const { spec, send, manager } = await clusterOn(t, nats)
    const pipeId = newPipeId()
    const seqs: number[] = []
    for (let n = 0; n < 10; n += 1) seqs.push(...(await send(pipeId, `m${n}`)))
    const reader = await openJetStreamReader(spec, openLog(quiet, 'test'), { owns: owner })
    const at3 = await reader.cursorAt(pipeId, seqs[2]!)
    await reader.close()
    for (const n of [3, 4])
      await manager.streams.deleteMessage(streamName(spec.cluster), streamSeqOf(seqs[n]!))
    const again = await readerOf(t, spec)
    await again.head(pipeId)
    const run = await again.read(pipeId, at3.seq, { ...plenty, afterMark: at3.mark })
    t.match(run, { messages: [], more: true, lost: [{ firstSeq: at3.seq + 1, messages: 2 }] })
    const { seq, mark } = run.lost[0]!.to
    const on = await again.read(pipeId, seq, { ...plenty, afterMark: mark })
    t.same(textsOf(on.messages), ['m5', 'm6', 'm7', 'm8', 'm9'])
    t.same(await again.backlog(pipeId, on.messages.at(-1)!), { messages: 0, records: 0, bytes: 0 })
  })

  t.test('what is too old goes by itself, and the feed says so', async (t) => {
    const { spec, send } = await clusterOn(t, nats, { undeliveredHours: 2 / 3600, deliveredHours: 2 / 3600 })
    const feed = await openJetStreamFeed(spec)
    t.teardown(() => feed.close())
    let drops = 0
    feed.onDropped(() => {
      drops += 1
    })
    const reader = await readerOf(t, spec, owner)
    const pipeId = newPipeId()
    const seqs = [...(await send(pipeId, 'old', 'old too'))]
    const beginning = { seq: 0, mark: '[0,0,0]' }
    t.equal((await reader.backlog(pipeId, beginning)).messages, 2)
    await until('it is gone', async () => (await reader.earliest(pipeId)).seq === seqs[1])
    const [next] = await send(pipeId, 'new')
    t.equal((await reader.backlog(pipeId, beginning)).messages, 3, 'what was dropped is counted still')
    const run = await reader.read(pipeId, 0, { ...plenty, afterMark: beginning.mark })
    t.match(run, { messages: [], lost: [{ firstSeq: 1, messages: 2, to: { mark: '[2,2,10]' } }] })
    const { seq, mark } = run.lost[0]!.to
    t.match((await reader.read(pipeId, seq, { ...plenty, afterMark: mark })).messages, [{ seq: next }])
    await until('the feed says so', () => drops > 0)
  })

  t.test(
    'a damaged message is put aside and passed over, and so is a frame that cannot be read',
    async (t) => {
      const { spec, connection, send } = await clusterOn(t, nats)
      const pipeId = newPipeId()
      const three = ['one', 'two', 'three'].map((text) => message(pipeId, text))
      const seqs = await publishFrame(connection, spec, three, (frame) => {
        frame.write('T', frame.indexOf('two'))
      })
      const broken = await publishFrame(
        connection,
        spec,
        [message(pipeId, 'x'.repeat(50), { recordCount: 3 }), message(pipeId, 'y')],
        (frame) => frame.writeUInt32LE(0xffffff, 0),
      )
      const [last] = await send(pipeId, 'last')
      await connection.request(
        pipeSubjects({ cluster: spec.cluster, pipeId }).replace('>', 'f'),
        'none of ours',
      )
      const reader = await readerOf(t, spec)
      const run = await reader.read(pipeId, 0, { ...plenty, afterMark: '[0,0,0]' })
      t.same(
        run.messages.map(({ seq, mark }) => [seq, mark]),
        [
          [seqs[0], '[1,1,3]'],
          [seqs[2], '[3,3,11]'],
          [last, '[6,8,66]'],
        ],
      )
      t.same(
        run.damaged.map(({ seq, mark, recordCount }) => [seq, mark, recordCount]),
        [
          [seqs[1], '[2,2,6]', 1],
          // Only the head of the frame is left: all its records are counted with its first message.
          [broken[0], '[4,7,62]', 4],
          [broken[1], '[5,7,62]', 0],
        ],
      )
      t.same((await countOf(reader, pipeId)).messages, 6)
      const files = readdirSync(spec.quarantineDir).filter((file) => file.endsWith('.body'))
      t.equal(files.length, 3)
      t.equal(readFileSync(path.join(spec.quarantineDir, files[0]!), 'utf8'), 'Two')
      t.ok(existsSync(path.join(spec.quarantineDir, files[0]!.replace('.body', '.json'))))
    },
  )

  t.test('a million small messages are read in order, and counted', async (t) => {
    const { spec, connection } = await clusterOn(t, nats)
    const pipeId = newPipeId()
    const texts = Array.from({ length: 1_000 }, (_, n) => `{"n":${n}}`)
    const frame = texts.map((text) => message(pipeId, text))
    for (let round = 0; round < 50; round += 1)
      await Promise.all(Array.from({ length: 20 }, () => publishFrame(connection, spec, frame)))
    const reader = await readerOf(t, spec)
    const beginning = { seq: 0, mark: '[0,0,0]' }
    t.equal((await reader.backlog(pipeId, beginning)).messages, 1_000_000)
    let cursor: { seq: number; mark: CursorMark } = beginning
    let count = 0
    let isInOrder = true
    for (;;) {
      const limits = { maxRecords: 1_500, maxBytes: MiB, afterMark: cursor.mark }
      const { messages, more } = await reader.read(pipeId, cursor.seq, limits)
      for (const { seq, body } of messages) {
        isInOrder &&= seq > cursor.seq && body.toString() === texts[count % 1_000]
        count += 1
      }
      cursor = messages.at(-1) ?? cursor
      if (!more) break
    }
    t.ok(isInOrder)
    t.equal(count, 1_000_000)
    t.match(cursor.mark, /^\[1000000,1000000,/)
    t.same(await reader.backlog(pipeId, cursor), { messages: 0, records: 0, bytes: 0 })
    // A rewind into the middle, by a cold reader, and backward through the pages.
    const middle = seqOf(streamSeqOf(cursor.seq) - 500, 499)
    const cold = await readerOf(t, spec)
    const at = await cold.cursorAt(pipeId, middle)
    t.match(at, { seq: middle, mark: /^\[499500,499500,/ })
    const run = await cold.read(pipeId, middle, { maxRecords: 10, maxBytes: MiB, afterMark: at.mark })
    t.same(textsOf(run.messages), texts.slice(500, 510))
    const lookup = await openJetStreamLookup(spec)
    t.teardown(() => lookup.close())
    const page = await lookup.list(pipeId, { beforeSeq: middle, afterSeq: 0, limit: 20 })
    t.same(
      page.map(({ seq }) => seq),
      Array.from({ length: 20 }, (_, n) => middle - 1 - n),
    )
  })

  t.test('messages are found by id and listed, newest first', async (t) => {
    const { spec, connection, send } = await clusterOn(t, nats)
    const [pipeId, sparse] = [newPipeId(), newPipeId()]
    const lookup = await openJetStreamLookup(spec)
    t.teardown(() => lookup.close())
    t.same(await lookup.list(pipeId, { beforeSeq: Number.MAX_SAFE_INTEGER, afterSeq: 0, limit: 10 }), [])
    // It came here long after it was received.
    const moved = {
      ...message(sparse, 'moved', { receivedMs: 1_700_000_000_000 }),
      msgId: '018bcfe5-6800-7000-8000-000000000001',
    }
    await publishFrame(connection, spec, [moved])
    const wanted = message(pipeId, 'wanted', { recordCount: 2 })
    const first = await send(sparse, 'first of few')
    const seqs: number[] = []
    for (let n = 0; n < 300; n += 1) seqs.push(...(await send(pipeId, `a ${n}`, `b ${n}`)))
    const [, seq] = await publishFrame(connection, spec, [message(pipeId, 'before'), wanted])
    for (let n = 0; n < 300; n += 1) await send(pipeId, `c ${n}`)
    const last = await send(sparse, 'last of few')
    t.match(await lookup.find(wanted.msgId), { seq, pipeId, recordCount: 2, body: Buffer.from('wanted') })
    t.match(await lookup.find(moved.msgId), { body: Buffer.from('moved') })
    t.equal(await lookup.find(message(pipeId, 'never sent').msgId), null)
    t.equal(await lookup.find('none'), null)
    const few = await lookup.list(sparse, { beforeSeq: last[0]! + 1, afterSeq: 0, limit: 10 })
    t.same(few.map(({ seq }) => seq).slice(0, 2), [last[0], first[0]])
    const listed: number[] = []
    for (let beforeSeq = seqs.at(-1)! + 1; ; ) {
      const page = await lookup.list(pipeId, { beforeSeq, afterSeq: seqs[10]!, limit: 70 })
      listed.push(...page.map(({ seq }) => seq))
      if (page.length < 70) break
      beforeSeq = page.at(-1)!.seq
    }
    t.same(listed, seqs.slice(11).reverse())
    t.match((await lookup.list(pipeId, { beforeSeq: seqs[1]! + 1, afterSeq: 0, limit: 1 }))[0], {
      seq: seqs[1],
      bytes: 3,
      recordCount: 1,
    })
  })

  t.test('the newest message of every pipe, once and then what is new', async (t) => {
    const { spec, send } = await clusterOn(t, nats)
    const [a, b] = [newPipeId(), newPipeId()]
    const reader = await readerOf(t, spec)
    t.equal(await reader.heads(0), null)
    const [ofA] = await send(a, 'x')
    const heads = await reader.heads(0)
    t.same(heads, { newestSeq: ofA, pipes: new Map([[a, ofA]]) })
    t.equal(await reader.heads(ofA!), null)
    const ofB = await send(b, 'x', 'y')
    t.same(await reader.heads(ofA!), {
      newestSeq: ofB[1],
      pipes: new Map([
        [a, ofA],
        [b, ofB[1]],
      ]),
    })
  })

  t.test('while the server is away reads are rejected, and go on when it is back', async (t) => {
    const { spec, send } = await clusterOn(t, nats)
    const pipeId = newPipeId()
    for (let n = 0; n < 300; n += 1) await send(pipeId, `${n}`)
    const reader = await readerOf(t, spec)
    // In the middle of a pull, with some of it in memory.
    const first = await reader.read(pipeId, 0, { maxRecords: 20, maxBytes: MiB, afterMark: '[0,0,0]' })
    await nats.servers[0]!.kill()
    await t.rejects(reader.head(newPipeId()), { name: 'BufferReadUnavailableError' })
    await nats.servers[0]!.restart()
    await nats.ready()
    const rest = await until('it reads again', async () => {
      const { seq, mark } = first.messages.at(-1)!
      const run = await reader.read(pipeId, seq, { ...plenty, afterMark: mark })
      return run.more ? null : run
    })
    t.same(
      textsOf([...first.messages, ...rest.messages]),
      Array.from({ length: 300 }, (_, n) => `${n}`),
    )
    t.same(rest.lost, [])
    // With checkpoints to write for many pipes: it does not wait for each of them.
    const owned = await openJetStreamReader(spec, openLog(quiet, 'test'), { owns: owner })
    for (let n = 0; n < 20; n += 1) {
      const one = newPipeId()
      await send(one, 'x')
      await owned.head(one)
    }
    await nats.servers[0]!.kill()
    await owned.close()
    t.pass('it ends all the same')
  })
})

t.test('a cluster of three', async (t) => {
  const nats = await natsFor(t, 3)

  t.test('a lane reads on in order while leaders change and servers come and go', async (t) => {
    const { spec } = await clusterOn(t, nats)
    const stream = streamName(spec.cluster)
    // As nodes connect: one that is connected to a server that stands still goes to another.
    const connection = await connectNats(spec.nats)
    t.teardown(() => connection.close())
    const pipeId = newPipeId()
    const reader = await readerOf(t, spec, owner)
    const read: MarkedMessage[] = []
    const acknowledged = new Set<string>()
    let isDone = false
    t.teardown(() => {
      isDone = true
    })
    const sending = (async () => {
      for (let n = 0; !isDone; n += 1) {
        // The reader keeps up: the faults find it reading.
        await until('it has read', () => isDone || acknowledged.size <= read.length + 500, { everyMs: 2 })
        const texts = [`${n}.0`, `${n}.1`]
        try {
          await publishFrame(
            connection,
            spec,
            texts.map((text) => message(pipeId, text)),
          )
          for (const text of texts) acknowledged.add(text)
        } catch {
          // Nobody leads: what became of it is not known.
        }
      }
    })()
    let refused = 0
    let cursor: { seq: number; mark: CursorMark } = { seq: 0, mark: '[0,0,0]' }
    const readOn = async () => {
      try {
        const limits = { maxRecords: 50, maxBytes: MiB, afterMark: cursor.mark }
        const run = await reader.read(pipeId, cursor.seq, limits)
        if (run.lost.length > 0 || run.damaged.length > 0) throw new Error('something is missing')
        read.push(...run.messages)
        cursor = run.messages.at(-1) ?? cursor
        return run
      } catch (error) {
        if ((error as Error).name !== 'BufferReadUnavailableError') throw error
        refused += 1
        return null
      }
    }
    const readTo = async (count: number) =>
      until(`${count} messages`, async () => (await readOn()) !== null && read.length >= count, {
        everyMs: 2,
      })
    await readTo(200)
    const leader = await until('somebody leads', () => nats.leaderOf(stream))
    await leader.kill()
    await readTo(read.length + 200)
    await leader.restart()
    await nats.ready()
    const second = await until('somebody leads', () => nats.leaderOf(stream))
    second.pause()
    await readTo(read.length + 200)
    second.resume()
    await nats.ready()
    isDone = true
    await sending
    await until('all is read', async () => {
      const run = await readOn()
      return run !== null && !run.more && (await reader.head(pipeId)).seq === cursor.seq
    })
    const texts = textsOf(read)
    const found = new Set(texts)
    t.same(
      [...acknowledged].filter((text) => !found.has(text)),
      [],
      'nothing acknowledged is missing',
    )
    t.equal(found.size, texts.length, 'nothing is read twice')
    const seqs = read.map(({ seq }) => seq)
    t.same(
      seqs,
      [...seqs].sort((a, b) => a - b),
      'in order',
    )
    t.equal(JSON.parse(cursor.mark)[0], texts.length)
    t.comment(`${refused} reads were refused`)
    const cold = await readerOf(t, spec)
    t.same(await cold.head(pipeId), { seq: cursor.seq, mark: cursor.mark })
  })
})
