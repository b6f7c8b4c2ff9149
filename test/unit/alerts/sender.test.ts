/** Retries, order and fairness of what is sent, with a clock that jumps and a receiver that does as told. */
import t, { type Test } from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import type { Post, PostOutcome } from '../../../src/destinations/http-endpoint/post.ts'
import type { AlertMark } from '../../../src/metadata/alert-store.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import { AlertSender } from '../../../src/observe/alerts/sender.ts'
import { openLog } from '../../../src/platform/log.ts'
import { open } from '../metadata/fixture.ts'

const minute = 60_000
const log = openLog({ level: 'silent', format: 'json' }, 'test')
const ok: PostOutcome = { ok: true, status: 200, code: 'http_200', message: '', retryAfterMs: null }
const no: PostOutcome = { ok: false, status: 500, code: 'http_500', message: 'no', retryAfterMs: null }

async function world(t: Test, receiver: (post: Post) => Promise<PostOutcome>) {
  const metadata = await open(t)
  const posts: Post[] = []
  const clock = { nowMs: 0 }
  const sender = new AlertSender({
    store: metadata.alertStore,
    poster: {
      post: (post) => {
        posts.push(post)
        return receiver(post)
      },
    },
    log,
    now: () => clock.nowMs,
    random: () => 1,
  })
  const workspace = async (name: string) => {
    const { workspaceId } = await metadata.workspaces.create(name, mintApiKey(name).key)
    await metadata.alerts.put(workspaceId, () => ({
      ...{ url: `https://${name}.example/`, secret: null, format: 'standard', events: null },
    }))
    return workspaceId
  }
  const queue = (workspaceId: string, ...ids: string[]) =>
    metadata.alertStore.record(workspaceId, {
      ...{ marks: [], gone: [] },
      alerts: ids.map((alertId) => ({
        alertId,
        atMs: clock.nowMs,
        json: JSON.stringify({ alert_id: alertId }),
      })),
    })
  const status = async (workspaceId: string) => (await metadata.alerts.get(workspaceId))?.status
  /** Runs until nothing is due any more. */
  const run = async (nowMs: number, ...ids: string[]) => {
    clock.nowMs = nowMs
    for (const id of ids) sender.notify(id)
    sender.run()
    await sender.settled()
  }
  return { posts, workspace, queue, status, run, metadata }
}

t.test('the oldest first, one after the other', async (t) => {
  const { posts, workspace, queue, status, run } = await world(t, async () => ok)
  const id = await workspace('one')
  await queue(id, 'a', 'b')
  await queue(id, 'c')
  await run(0, id)
  t.same(
    posts.map((post) => post.id),
    ['a', 'b', 'c'],
  )
  t.match(await status(id), {
    pending_alerts: 0,
    last_sent_ts: new Date(0).toISOString(),
    last_failure: null,
  })
})

t.test('what fails is tried again, later and later, and given up after an hour', async (t) => {
  const { posts, workspace, queue, status, run } = await world(t, async () => no)
  const id = await workspace('one')
  await queue(id, 'a', 'b')
  const tried: number[] = []
  for (let nowMs = 0; nowMs <= 70 * minute; nowMs += 1_000) {
    const before = posts.length
    await run(nowMs, id)
    if (posts.length > before) tried.push(nowMs / 1_000)
  }
  t.same(tried.slice(0, 8), [0, 5, 15, 35, 75, 155, 315, 615])
  t.ok(tried.length < 30, `${tried.length} requests in an hour, however much there is to send`)
  t.ok(
    posts.every((post) => post.id === 'a'),
    'the next one is as old and is given up with it',
  )
  t.match(await status(id), { pending_alerts: 0, last_sent_ts: null })
})

t.test('a receiver may ask for a pause, up to a quarter of an hour', async (t) => {
  const asked = { ...no, retryAfterMs: 24 * 60 * minute }
  const { posts, workspace, queue, run } = await world(t, async () => (posts.length === 1 ? asked : ok))
  const id = await workspace('one')
  await queue(id, 'a')
  await run(0, id)
  await run(15 * minute - 1, id)
  t.equal(posts.length, 1)
  await run(15 * minute, id)
  t.same(
    posts.map((post) => post.id),
    ['a', 'a'],
  )
})

t.test('a hanging receiver holds up its own workspace alone; all together are bounded', async (t) => {
  const hanging: (() => void)[] = []
  const { posts, workspace, queue, run } = await world(t, (post) =>
    post.url.includes('good')
      ? Promise.resolve(ok)
      : new Promise((resolve) => hanging.push(() => resolve(no))),
  )
  const bad = []
  for (let n = 0; n < resourceLimits.alertsAtOnce - 1; n++) {
    const id = await workspace(`bad-${n}`)
    await queue(id, 'a', 'b')
    bad.push(id)
  }
  const good = await workspace('good')
  await queue(good, 'x', 'y')
  const done = run(0, ...bad, good)
  while (posts.filter((post) => post.url.includes('good')).length < 2) await new Promise(setImmediate)
  t.equal(posts.length, resourceLimits.alertsAtOnce + 1, 'one of each that hangs, both of the good one')
  for (const release of hanging) release()
  await done
})

t.test('marks of thousands of lanes are stored together, and again as they are then', async (t) => {
  const { workspace, metadata } = await world(t, async () => ok)
  const id = await workspace('one')
  const marks: AlertMark[] = Array.from({ length: 1_050 }, (_, n) => ({
    ...{ subject: `lane-${n}`, event: 'lane.stuck', state: 'held' },
    ...{ sinceMs: 1, alertedMs: null, heldBack: 1, counted: 0 },
  }))
  await metadata.alertStore.record(id, { marks, gone: [], alerts: [] })
  const raised = marks.map((mark): AlertMark => ({ ...mark, state: 'raised', alertedMs: 2, heldBack: 0 }))
  await metadata.alertStore.record(id, { marks: raised.slice(1), gone: marks.slice(0, 1), alerts: [] })
  const stored = await metadata.alertStore.marks(id)
  t.same(new Set(stored), new Set(raised.slice(1)))
  t.equal(stored.length, 1_049)
})

t.test('a workspace keeps so many at most; the oldest go', async (t) => {
  const { workspace, queue, status, metadata } = await world(t, async () => ok)
  const id = await workspace('one')
  const ids = Array.from({ length: resourceLimits.alertsPerWorkspace + 5 }, (_, n) => `alert-${n}`)
  await queue(id, ...ids)
  t.match(await status(id), { pending_alerts: resourceLimits.alertsPerWorkspace })
  t.equal((await metadata.alertStore.next(id))?.alert.alertId, 'alert-5')
  await metadata.alerts.delete(id)
  t.equal(await metadata.alertStore.next(id), null, 'and none of a workspace without alerts')
  t.equal(await queue(id, 'late'), false)
})
