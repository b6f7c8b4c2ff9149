/** The pinned key of a destination's server: the first one stands, until it is reset or the server is another one. */
import t from 'tap'
import { databaseDestination, newPipe, newWorkspace, open, openFile, testFile } from './fixture.ts'

const [first, second] = ['1'.repeat(64), '2'.repeat(64)]

async function scene(t: Parameters<typeof open>[0]) {
  const options = { ...testFile(t), now: () => Date.UTC(2026, 0, 2) }
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { destination_id: id } = await metadata.destinations.create(
    { workspaceId, pipeId },
    databaseDestination(),
  )
  const { destinations, laneSource, pinStore } = metadata
  return {
    ...{ options, metadata, workspaceId, pipeId, id, pinStore },
    shown: async () => (await destinations.get({ workspaceId, pipeId, destinationId: id }))?.tls_pin,
    generation: async () => (await laneSource.pipe(pipeId))?.lanes[0]?.pinGeneration ?? -1,
    update: (change: Parameters<typeof destinations.update>[1]) =>
      destinations.update({ workspaceId, pipeId, destinationId: id }, change),
  }
}

t.test('the first key is pinned and stands, also after the file was closed', async (t) => {
  const { options, metadata, workspaceId, pipeId, id, pinStore, shown } = await scene(t)
  t.equal(await shown(), null)
  t.strictSame(await pinStore.pin(id, 0, first), { sha256: first, isNew: true })
  t.strictSame(await pinStore.pin(id.toUpperCase(), 0, second), { sha256: first, isNew: false })
  const pin = { sha256: first, first_seen_ts: '2026-01-02T00:00:00.000Z' }
  t.strictSame(await shown(), pin)
  await metadata.close()
  const again = await openFile(options)
  t.teardown(() => again.close())
  t.strictSame((await again.destinations.get({ workspaceId, pipeId, destinationId: id }))?.tls_pin, pin)
  t.strictSame(await again.pinStore.pin(id, 0, second), { sha256: first, isNew: false })
})

t.test('of two that pin at once both get the one that is pinned', async (t) => {
  const { options, id, pinStore } = await scene(t)
  const other = await openFile(options)
  t.teardown(() => other.close())
  const pinned = await Promise.all([pinStore.pin(id, 0, first), other.pinStore.pin(id, 0, second)])
  t.equal(pinned[0]?.sha256, pinned[1]?.sha256)
  t.equal(pinned.filter((one) => one?.isNew).length, 1)
})

t.test('what was connected to before a reset pins nothing', async (t) => {
  const { pinStore, id, update, shown, generation } = await scene(t)
  await pinStore.pin(id, 0, first)
  await update({ tls_pin: null })
  t.equal(await shown(), null)
  t.equal(await pinStore.pin(id, 0, first), null)
  t.equal(await generation(), 1)
  t.strictSame(await pinStore.pin(id, 1, second), { sha256: second, isNew: true })
})

t.test('another server resets the pin, and nothing else does', async (t) => {
  const { pinStore, id, update, shown, generation } = await scene(t)
  const { destination_config: config } = databaseDestination()
  await pinStore.pin(id, 0, first)
  for (const change of [
    { password: 'other' },
    { table: 'others' },
    { database: 'd' },
    { host: 'DB.example' },
  ]) {
    await update({ destination_config: { ...config, ...change } })
    t.match(await shown(), { sha256: first }, JSON.stringify(change))
  }
  await update({ destination_status: 'blocked', columns: [], rate: { requests_per_second: 1 } })
  t.match(await shown(), { sha256: first })
  t.equal(await generation(), 0)
  for (const [times, change] of [
    { host: 'other.example' },
    { host: 'other.example', port: 5433 },
  ].entries()) {
    await update({ destination_config: { ...config, ...change } })
    t.equal(await shown(), null, JSON.stringify(change))
    t.equal(await pinStore.pin(id, times, second), null, 'the server of before')
    t.equal((await pinStore.pin(id, times + 1, first))?.isNew, true)
  }
})

t.test(
  'a server that is changed before anything was pinned is not pinned by an old connection',
  async (t) => {
    const { pinStore, id, update } = await scene(t)
    await update({ destination_config: { ...databaseDestination().destination_config, port: 1 } })
    t.equal(await pinStore.pin(id, 0, first), null)
  },
)

t.test('a destination that is gone', async (t) => {
  const { metadata, workspaceId, pipeId, id, pinStore } = await scene(t)
  await metadata.destinations.delete({ workspaceId, pipeId, destinationId: id })
  t.equal(await pinStore.pin(id, 0, first), null)
})
