/**
 * The conformance suite of the metadata port. The caller provides an empty database; nothing here knows which one.
 * Several handles are opened on it, as by the threads of a daemon and the nodes of a cluster.
 */
import type { Test } from 'tap'
import { isUuid } from '../../../src/contract/uuid.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { LaneState } from '../../../src/metadata/lane-state.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { column, databaseDestination, limits, newPipe, newWorkspace, pullDestination } from './fixture.ts'

export interface MetadataUnderTest {
  /** One more handle on the same database; closed at the end of the test. */
  open(): Promise<Metadata>
}

/** `create` makes an empty database of the given test's own. */
export function testMetadataPort(t: Test, create: (t: Test) => Promise<MetadataUnderTest>): void {
  t.test('what one handle has written, another one reads at once', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const pipe = await newPipe(writer, workspaceId, 'events')
    t.strictSame(await reader.pipes.get({ workspaceId, pipeId: pipe.pipe_id }), pipe)
    const columns = [column('b', { nullable: false }), column('a')]
    const given = databaseDestination({ columns, destination_name: 'main' })
    const destination = await writer.destinations.create({ workspaceId, pipeId: pipe.pipe_id }, given)
    t.strictSame(await reader.destinations.list({ workspaceId, pipeId: pipe.pipe_id }), [destination])
    t.match(destination, { ...given, startAfterSeq: undefined }, 'whole, secrets in the clear')
    t.strictSame(await writer.limits.put({ workspaceId, pipeId: pipe.pipe_id }, limits), limits)
    t.strictSame(await reader.limits.get({ workspaceId, pipeId: pipe.pipe_id }), limits)
    t.match(await reader.directory.pipe(pipe.pipe_id), { workspaceId, pipe, limits, requiredFields: ['b'] })
    t.match(await reader.laneSource.pipe(pipe.pipe_id), { lanes: [{ name: 'main', columns }] })
  })

  t.test('durable: closed and opened again, everything is there', async (t) => {
    const database = await create(t)
    const first = await database.open()
    const workspaceId = await newWorkspace(first, 'default')
    const pipe = await newPipe(first, workspaceId, 'events')
    const destination = await first.destinations.create(
      { workspaceId, pipeId: pipe.pipe_id },
      databaseDestination(),
    )
    await first.close()
    const again = await database.open()
    t.strictSame(await again.pipes.list(workspaceId), [pipe])
    t.strictSame(await again.destinations.list({ workspaceId, pipeId: pipe.pipe_id }), [destination])
  })

  t.test('a workspace sees only itself', async (t) => {
    const { writer, workspaceId } = await twoHandles(await create(t))
    const stranger = await newWorkspace(writer, 'stranger')
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
    const { destination_id: id } = await writer.destinations.create(
      { workspaceId, pipeId },
      pullDestination(),
    )
    const origin = await writer.origins.add({ workspaceId, pipeId }, 'https://app.example')
    const key = await writer.apiKeys.create(workspaceId, mintApiKey('second').key)
    t.strictSame(await writer.pipes.list(stranger), [])
    t.equal(await writer.pipes.get({ workspaceId: stranger, pipeId }), null)
    t.equal(await writer.pipes.update({ workspaceId: stranger, pipeId }, { pipe_status: 'paused' }), null)
    t.equal(await writer.pipes.delete({ workspaceId: stranger, pipeId }), false)
    t.strictSame(await writer.destinations.list({ workspaceId: stranger, pipeId }), [])
    t.equal(await writer.destinations.get({ workspaceId: stranger, destinationId: id }), null)
    t.equal(
      await writer.destinations.update(
        { workspaceId: stranger, pipeId, destinationId: id },
        { destination_status: 'blocked' },
      ),
      null,
    )
    t.equal(await writer.destinations.delete({ workspaceId: stranger, pipeId, destinationId: id }), false)
    const notFound = { code: 'pipe_not_found' }
    await t.rejects(
      writer.destinations.create({ workspaceId: stranger, pipeId }, pullDestination()),
      notFound,
    )
    await t.rejects(writer.limits.put({ workspaceId: stranger, pipeId }, limits), notFound)
    await t.rejects(writer.origins.add({ workspaceId: stranger, pipeId }, 'https://b.example'), notFound)
    t.equal(
      await writer.origins.remove({ workspaceId: stranger, pipeId }, origin.pipe_allowed_origin_id),
      false,
    )
    t.equal(await writer.apiKeys.revoke({ workspaceId: stranger, apiKeyId: key.api_key_id }), false)
    t.strictSame(await writer.usage.byPipe(stranger, 0), {})
    t.equal(
      (await writer.pipes.get({ workspaceId, pipeId }))?.pipe_status,
      'active',
      'its own still is as it was',
    )
  })

  t.test('a second of the same name is rejected, in a race of two handles too', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
    const named = { ...pullDestination(), destination_name: 'main' }
    const races: Record<string, (metadata: Metadata) => Promise<unknown>> = {
      duplicate_pipe_name: (metadata) => newPipe(metadata, workspaceId, 'twice'),
      duplicate_destination_name: (metadata) => metadata.destinations.create({ workspaceId, pipeId }, named),
      duplicate_origin: (metadata) => metadata.origins.add({ workspaceId, pipeId }, 'https://twice.example'),
      duplicate_api_key_name: (metadata) => metadata.apiKeys.create(workspaceId, mintApiKey('twice').key),
      validation_error: (metadata) => metadata.workspaces.create('twice', mintApiKey('first').key),
    }
    for (const [code, make] of Object.entries(races)) {
      const results = await Promise.allSettled([make(writer), make(reader), make(writer), make(reader)])
      const codes = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []))
      t.strictSame(codes, [code, code, code], code)
      await t.rejects(make(reader), { code }, `${code}, later`)
    }
  })

  t.test('lists are in the order of creation, also when two handles create at once', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const made: string[] = []
    for (let index = 0; index < 6; index += 1) {
      const pipe = await newPipe(index % 2 ? writer : reader, workspaceId, `pipe-${9 - index}`)
      made.push(pipe.pipe_id)
    }
    t.strictSame(
      (await reader.pipes.list(workspaceId)).map((pipe) => pipe.pipe_id),
      made,
    )
    const names = Array.from({ length: 20 }, (_, index) => `at-once-${index}`)
    await Promise.all(names.map((name, index) => newPipe(index % 2 ? writer : reader, workspaceId, name)))
    const listed = (await reader.pipes.list(workspaceId)).map((pipe) => pipe.pipe_name)
    t.equal(listed.length, 26, 'none is lost')
    t.strictSame(
      (await writer.pipes.list(workspaceId)).map((pipe) => pipe.pipe_name),
      listed,
    )
  })

  t.test('changes decided from what is stored: none writes over another', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events', { pipe_description: '' })
    const { destination_id: id } = await writer.destinations.create(
      { workspaceId, pipeId },
      databaseDestination({ destination_config: { password: 'p' } }),
    )
    const numbers = Array.from({ length: 24 }, (_, index) => index)
    await Promise.all(
      numbers.flatMap((number) => {
        const metadata = number % 2 ? writer : reader
        return [
          metadata.pipes.update({ workspaceId, pipeId }, (current) => ({
            pipe_description: `${current.pipe_description}.`,
          })),
          metadata.destinations.update(
            { workspaceId, pipeId, destinationId: id },
            ({ destination_config }) => ({
              destination_config: { ...destination_config, [`key-${number}`]: number },
            }),
          ),
        ]
      }),
    )
    t.equal((await reader.pipes.get({ workspaceId, pipeId }))?.pipe_description.length, numbers.length)
    const stored = await reader.destinations.get({ workspaceId, pipeId, destinationId: id })
    t.strictSame(
      { ...stored?.destination_config },
      { password: 'p', ...Object.fromEntries(numbers.map((number) => [`key-${number}`, number])) },
    )
  })

  t.test('a change whose decision throws changes nothing', async (t) => {
    const { writer, workspaceId } = await twoHandles(await create(t))
    const pipe = await newPipe(writer, workspaceId, 'events')
    const change = writer.pipes.update({ workspaceId, pipeId: pipe.pipe_id }, () => {
      throw new Error('not so')
    })
    await t.rejects(change, { message: 'not so' })
    t.strictSame(await writer.pipes.get({ workspaceId, pipeId: pipe.pipe_id }), pipe)
  })

  t.test('a deleted pipe takes everything of it along', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
    const { destination_id: id } = await writer.destinations.create(
      { workspaceId, pipeId },
      pullDestination(),
    )
    await writer.limits.put({ workspaceId, pipeId }, limits)
    await writer.usage.addIngest([ingested(pipeId, 0, 1)], [{ pipeId, messages: 1, records: 1, bytes: 1 }])
    t.equal(await writer.pipes.delete({ workspaceId, pipeId }), true)
    t.equal(await reader.pipes.delete({ workspaceId, pipeId }), false)
    t.equal(await reader.destinations.get({ workspaceId, destinationId: id }), null)
    t.equal(await reader.laneStore.load(id), null)
    t.equal(await reader.laneSource.pipe(pipeId), null)
    t.equal(await reader.directory.pipe(pipeId), null)
    t.strictSame(await reader.usage.byPipe(workspaceId, 0), {})
    t.strictSame(await reader.usage.marks(), [])
  })

  t.test('a revoked key is no key any more, keeps its row and gives its name back', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const { key } = mintApiKey('ci')
    const { api_key_id: id } = await writer.apiKeys.create(workspaceId, key)
    t.match(await reader.directory.key(key.hash), { apiKeyId: id, workspaceId })
    t.equal(await writer.apiKeys.revoke({ workspaceId, apiKeyId: id }), true)
    t.equal(await writer.apiKeys.revoke({ workspaceId, apiKeyId: id }), false)
    t.equal(await reader.directory.key(key.hash), null)
    t.notOk((await reader.directory.allKeys()).has(key.hash))
    await writer.apiKeys.create(workspaceId, mintApiKey('ci').key)
    t.strictSame(
      (await reader.apiKeys.list(workspaceId)).map((row) => [row.api_key_name, row.api_key_status]),
      [
        ['first', 'active'],
        ['ci', 'revoked'],
        ['ci', 'active'],
      ],
    )
  })

  t.test('lane state: saved whole, with its counts, or not at all; never over a newer owner', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
    const lanes: LaneState[] = []
    for (let index = 0; index < 3; index += 1) {
      const made = await writer.destinations.create({ workspaceId, pipeId }, pullDestination(index))
      const lane = await reader.laneStore.load(made.destination_id)
      t.match(lane, { cursorSeq: index, ownerEpoch: 0, cursorMark: null, recordOffset: 0 })
      if (lane !== null) lanes.push(lane)
    }
    const [first, second, gone] = lanes
    if (!first || !second || !gone) throw new Error('no lanes')
    await writer.destinations.delete({ workspaceId, pipeId, destinationId: gone.destinationId })
    const { destinationId } = first
    const counts = {
      destinationId,
      pipeId,
      deliveredRecords: 7,
      failedAttempts: 1,
      skippedRecords: 2,
      filteredRecords: 4,
    }
    const moved = { ...first, cursorSeq: 2 ** 53 - 1, cursorMark: '{"m":1}', ownerEpoch: 2 }
    const countsOfGone = { ...counts, destinationId: gone.destinationId, pipeId: 'gone' }
    await writer.laneStore.save([moved, { ...gone, cursorSeq: 9 }], [counts, countsOfGone])
    t.strictSame(await reader.laneStore.load(first.destinationId), moved, 'a deleted lane disturbs nobody')
    const stale = [
      { ...second, cursorSeq: 5, ownerEpoch: 1 },
      { ...first, cursorSeq: 6, ownerEpoch: 1 },
    ]
    await t.rejects(reader.laneStore.save(stale, [counts]), {
      name: 'LaneOwnershipLostError',
      destinationIds: [first.destinationId],
    })
    t.strictSame(await reader.laneStore.load(first.destinationId), moved)
    t.strictSame(await reader.laneStore.load(second.destinationId), second)
    t.match(await reader.usage.byPipe(workspaceId, 0), {
      [pipeId]: { delivered_records: 7, failed_attempts: 1, skipped_records: 2, filtered_records: 4 },
    })
    const lastMs = Number.MAX_SAFE_INTEGER
    t.strictSame(
      [...(await reader.usage.ofLane({ workspaceId, destinationId }, 0, lastMs)).values()],
      [{ delivered_records: 7, failed_attempts: 1, skipped_records: 2, filtered_records: 4 }],
    )
    for (const id of [second.destinationId, gone.destinationId])
      t.equal(
        (await reader.usage.ofLane({ workspaceId, destinationId: id }, 0, lastMs)).size,
        0,
        'what another lane did',
      )
  })

  t.test(
    'a lane that is taken: its owner before saves nothing more, and nothing of it is unseen',
    async (t) => {
      const { writer, reader, workspaceId } = await twoHandles(await create(t))
      const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
      const made = await writer.destinations.create({ workspaceId, pipeId }, pullDestination())
      const id = made.destination_id
      const old = (await reader.laneStore.take(id, 1))!
      t.equal(old.ownerEpoch, 0, 'the first owner has nobody to keep out')
      await writer.laneStore.save([{ ...old, cursorSeq: 1, ownerEpoch: 1 }], [])
      const taken = (await reader.laneStore.take(id, 2))!
      t.match(taken, { cursorSeq: 1, ownerEpoch: 2 })
      t.strictSame(await reader.laneStore.load(id), taken, 'whole')
      await t.rejects(writer.laneStore.save([{ ...old, cursorSeq: 2, ownerEpoch: 1 }], []), {
        name: 'LaneOwnershipLostError',
      })
      t.equal((await reader.laneStore.load(id))?.cursorSeq, 1, 'before the new owner has saved anything')
      await reader.laneStore.take(id, 3)
      await t.rejects(writer.laneStore.take(id, 2), { name: 'LaneOwnershipLostError' })
      t.equal(await reader.laneStore.take('00000000-0000-4000-8000-000000000000', 2), null)
      // At the same moment: the save is part of what is taken, or fails.
      for (let epoch = 4; epoch < 40; epoch += 1) {
        const cursorSeq = epoch * 10
        const save = writer.laneStore.save([{ ...taken, cursorSeq, ownerEpoch: epoch - 1 }], [])
        const [saved, next] = await Promise.allSettled([save, reader.laneStore.take(id, epoch)])
        const seen = next.status === 'fulfilled' ? next.value?.cursorSeq : null
        t.equal(saved.status === 'fulfilled', seen === cursorSeq, `epoch ${epoch}`)
        t.equal((await reader.laneStore.load(id))?.cursorSeq, seen)
      }
    },
  )

  t.test('a data directory has one identity, and one known newest seq, for every handle', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const identity = await writer.identity()
    t.match(identity, { epochs: [{ epoch: 1, first_seq: 1, after_seq: 0 }] })
    t.ok(isUuid(identity.dataDirId))
    t.strictSame(await reader.identity(), identity)
    t.equal(await reader.knownSeq(), 0)
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
    const made = await writer.destinations.create({ workspaceId, pipeId }, pullDestination(30))
    t.equal(await reader.knownSeq(), 30, 'a cursor')
    const lane = await reader.laneStore.load(made.destination_id)
    await writer.laneStore.save([{ ...lane!, batchFirstSeq: 31, batchLastSeq: 40 }], [])
    t.equal(await reader.knownSeq(), 40, 'a fixed range')
    const ahead = { batchFirstSeq: 31, batchLastSeq: 40, nextFirstSeq: 41, nextLastSeq: 50 }
    await writer.laneStore.save([{ ...lane!, ...ahead }], [])
    t.equal(await reader.knownSeq(), 50, 'a range fixed ahead')
    await writer.laneStore.save([{ ...lane!, ...ahead, laterRanges: [[51, 60]] }], [])
    t.equal(await reader.knownSeq(), 60, 'another one')
  })

  t.test('deleted pipes are remembered until they are forgotten', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const kept = await newPipe(writer, workspaceId, 'kept')
    const ids: string[] = []
    for (const name of ['one', 'two']) ids.push((await newPipe(writer, workspaceId, name)).pipe_id)
    for (const id of ids) await writer.pipes.delete({ workspaceId, pipeId: id.toUpperCase() })
    t.equal(await writer.pipes.delete({ workspaceId, pipeId: ids[0]! }), false)
    t.strictSame(await reader.laneSource.deletedPipes(), [...ids].sort())
    t.strictSame(await reader.laneSource.deletedPipes(1), [], 'none was deleted before that')
    await writer.laneSource.forgetDeletedPipes([ids[0]!, kept.pipe_id])
    t.strictSame(await reader.laneSource.deletedPipes(), [ids[1]])
  })

  t.test('usage: counts of all handles add up, hour by hour; marks are set', async (t) => {
    const { writer, reader, workspaceId } = await twoHandles(await create(t))
    const { pipe_id: pipeId } = await newPipe(writer, workspaceId, 'events')
    const hours = [0, 3_600_000, 7_200_000]
    await Promise.all(
      [writer, reader, writer, reader].flatMap((metadata, index) =>
        hours.map((hourMs) => metadata.usage.addIngest([ingested(pipeId, hourMs, index + 1)], [])),
      ),
    )
    t.match(await reader.usage.byPipe(workspaceId, 3_600_000), {
      [pipeId]: { ingest_requests: 8, ingest_records: 20, ingest_bytes: 200 },
    })
    t.strictSame(await reader.usage.ingestedSince(7_200_000), { [pipeId]: { records: 10, bytes: 100 } })
    const mark = { pipeId, messages: 4, records: 2 ** 52, bytes: 2 ** 53 - 1 }
    await writer.usage.addIngest([], [{ ...mark, messages: 1 }])
    await writer.usage.addIngest([], [mark])
    t.strictSame(await reader.usage.marks(), [mark])
    await writer.usage.prune(7_200_000)
    t.match(await reader.usage.byPipe(workspaceId, 0), { [pipeId]: { ingest_records: 10 } })
  })
}

interface TwoHandles {
  writer: Metadata
  reader: Metadata
  workspaceId: string
}

async function twoHandles(database: MetadataUnderTest): Promise<TwoHandles> {
  const writer = await database.open()
  const reader = await database.open()
  return { writer, reader, workspaceId: await newWorkspace(writer, 'default') }
}

function ingested(pipeId: string, hourMs: number, records: number) {
  return { pipeId, hourMs, requests: 1, records, bytes: records * 10, rejected: 0, lastIngestMs: hourMs }
}
