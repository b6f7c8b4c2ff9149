/** GET …/destinations/{destination_id}/usage on the real daemon: what one lane did in each hour. */
import t from 'tap'
import type { LaneByHour } from '../../src/contract/usage.ts'
import { createStranger } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { errorsIn } from './management-client.ts'
import { startTwoLanes } from './two-lanes.ts'

const { daemon, sink, api, pipe, at, lane, pull: other } = await startTwoLanes()

async function hoursOf(id: string, query = ''): Promise<LaneByHour['hours']> {
  const answer = await api('GET', `${at}/${id}/usage${query}`)
  if (answer.status !== 200) throw new Error(answer.text)
  const { hours }: LaneByHour = Object(answer.body)
  return hours
}

/** Summed over the hours: a test may run while one begins. */
async function together(id: string): Promise<[delivered: number, failed: number, skipped: number]> {
  const sums: [number, number, number] = [0, 0, 0]
  for (const hour of await hoursOf(id)) {
    sums[0] += hour.delivered_records
    sums[1] += hour.failed_attempts
    sums[2] += hour.skipped_records
  }
  return sums
}

t.test('one entry per hour, the current one last, zeros before anything happened', async (t) => {
  for (const [query, wanted] of [
    ['', 24],
    ['?hours=1', 1],
    ['?hours=720', 720],
  ] as const) {
    const hours = await hoursOf(lane, query)
    t.equal(hours.length, wanted)
    t.ok(Date.now() - Date.parse(hours.at(-1)?.hour_ts ?? '') < 2 * 3_600_000)
    t.ok(
      hours.every(
        (hour) =>
          hour.delivered_records + hour.failed_attempts + hour.skipped_records + hour.filtered_records === 0,
      ),
    )
  }
  for (const hours of ['0', '721', 'all'])
    t.strictSame(errorsIn(await api('GET', `${at}/${lane}/usage?hours=${hours}`)), {
      hours: 'must be a whole number from 1 to 720',
    })
})

t.test('what the lane delivered, failed and skipped, and nothing of another lane of its pipe', async (t) => {
  await daemon.ingest(pipe, [{ n: 1 }, { n: 2 }])
  await until('delivered', async () => (await together(lane))[0] === 2)
  sink.respondWith(() => ({ status: 422, body: 'no' }))
  await daemon.ingest(pipe, [{ n: 3 }])
  await until('it has failed', async () => (await together(lane))[1] > 0)
  t.match(await api('POST', `${at}/${lane}/skip`), { status: 200, body: { skipped: true } })
  const [delivered, failed, skipped] = await together(lane)
  t.strictSame([delivered, skipped], [2, 1])
  t.ok(failed >= 1)
  t.strictSame(await together(other), [0, 0, 0])
  t.equal((await daemon.api('GET', `/v1/pull/${other}?wait_ms=0`)).status, 200)
  await until('pulled is delivered', async () => (await together(other))[0] === 2)
  t.strictSame((await together(lane))[0], 2)
})

t.test('it is there after a restart, and goes with the destination', async (t) => {
  const before = await together(lane)
  await daemon.stop()
  await daemon.start()
  t.strictSame(await together(lane), before)
  t.equal((await api('DELETE', `${at}/${lane}`)).status, 204)
  t.match(await api('GET', `${at}/${lane}/usage`), { status: 404, body: { error: 'destination_not_found' } })
})

t.test('of another workspace there is nothing', async (t) => {
  const { api_key: key } = await createStranger(daemon.dataDir)
  t.match(await api('GET', `${at}/${other}/usage`, undefined, { key }), { status: 404 })
})
