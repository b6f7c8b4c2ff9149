/**
 * Five workspaces at one daemon. Some attack it, one attack after the other in random order; the others send and receive
 * what they always do; and the daemon is killed (SIGKILL) again and again. In the end the honest ones have everything they
 * were promised, in order, and the daemon takes no more of its machine than before.
 *
 * It takes a minute, or as many as `--scale` says. TEST_SEED takes another order.
 */
import t from 'tap'
import { Attacker } from '../support/attacks/attacker.ts'
import { type AttackName, attackNames } from '../support/attacks/attacks.ts'
import { consumer, endpoint, HonestTenant, tableIn } from '../support/attacks/honest-tenant.ts'
import { ProcessWatch } from '../support/attacks/process-watch.ts'
import { median, type Seen, Victim } from '../support/attacks/victim.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { startPostgres } from '../support/postgres.ts'
import { seeded } from '../support/rogue/rogue-server.ts'
import { scaled, seed } from '../support/scale.ts'
import { unitEnvironment } from '../support/unit-environment.ts'
import { until } from '../support/until.ts'

const seconds = scaled(60)
/** Other tests run beside the short one. */
const hostileCount = seconds > 120 ? 2 : 1
const killEveryMs = Math.min(60, seconds / 3) * 1_000
const attackMs = 1_000
const MiB = 1024 * 1024
let endMs = 0
const leftMs = () => Math.max(0, endMs - performance.now())

const daemon = await startDaemon({
  env: {
    ...unitEnvironment(),
    PIPECTL_EGRESS_PRIVATE: 'allow',
    PIPECTL_BUFFER_MAX_BYTES: '1GiB',
    PIPECTL_WORKSPACE_MAX_PIPES: '40',
    PIPECTL_WORKSPACE_MAX_DESTINATIONS: '60',
    PIPECTL_WORKSPACE_MAX_API_KEYS: '100',
  },
})
t.teardown(() => daemon.close())
const postgres = await startPostgres()
t.teardown(() => postgres.stop())

const names = ['one', 'two', 'three', 'four'].map((name) => createWorkspace(daemon.dataDir, name))
const workspaces = await Promise.all(names)
const hostile = workspaces.slice(0, hostileCount)
const clients = [daemon, ...workspaces.slice(hostileCount).map(({ api_key: key }) => daemon.as(key))]
const kinds = [endpoint, tableIn(postgres), consumer, endpoint]
const tenants = await Promise.all(
  clients.map((client, place) => HonestTenant.open(client, kinds[place] ?? endpoint)),
)
t.teardown(() => Promise.all(tenants.map((tenant) => tenant.stop())))
const victims = await Promise.all(hostile.map((_, place) => Victim.open(clients[place] ?? daemon)))
t.teardown(() => Promise.all(victims.map((victim) => victim.stop())))
const attackers = await Promise.all(hostile.map(() => Attacker.open()))
t.teardown(() => Promise.all(attackers.map((attacker) => attacker.close())))

interface Run {
  attack: AttackName
  seen: Seen
  statuses: Record<number, number>
}
const runs: Run[] = []

/** Every attack once in random order, then again in another, until the time is over. */
async function attackFrom(place: number): Promise<void> {
  const random = seeded(seed + place)
  const { api_key: apiKey, api_key_id: apiKeyId } = hostile[place]!
  let left: AttackName[] = []
  while (leftMs() > 0) {
    if (left.length === 0) left = [...attackNames]
    const [attack] = left.splice(random(left.length), 1) as [AttackName]
    await until('the daemon is there', () => daemon.isReady)
    const { url, dataUrl } = daemon
    const started = attackers[place]!.start(attack, { url, dataUrl, apiKey, apiKeyId }, random(2 ** 31))
    // One whose daemon is killed meanwhile never gets under way.
    await Promise.race([started, new Promise((resolve) => setTimeout(resolve, 4 * attackMs))])
    const seen = await victims[place]!.look(Number.POSITIVE_INFINITY, attackMs)
    runs.push({ attack, seen, statuses: await attackers[place]!.stop() })
  }
}

async function killAgainAndAgain(watch: ProcessWatch): Promise<number> {
  for (let kills = 0; ; kills += 1) {
    if (leftMs() < 1.5 * killEveryMs) return kills
    await new Promise((resolve) => setTimeout(resolve, killEveryMs))
    await watch.killAndRestart()
  }
}

t.test(`${seconds} s of attacks by ${hostileCount} of five workspaces, seed ${seed}`, async (t) => {
  const watch = new ProcessWatch(daemon)
  t.teardown(() => watch.stop())
  await until('all have sent for a while', () => tenants.every(({ producer }) => producer.accepted.size > 50))
  const before = watch.descriptors()
  endMs = performance.now() + seconds * 1_000

  const [kills] = await Promise.all([
    killAgainAndAgain(watch),
    ...hostile.map((_, place) => attackFrom(place)),
  ])
  t.ok(kills >= 1, `killed ${kills} times`)
  report(t)

  const slack = 16
  await until('what the attacks had open is closed', () => watch.descriptors() <= before + slack).catch(
    () => {},
  )
  const after = watch.descriptors()
  t.ok(after <= before + slack, `${after} file descriptors, ${before} before`)
  const most = Math.round(watch.maxResidentBytes / MiB)
  // 433 MiB were seen in ten minutes beside other tests.
  t.ok(watch.maxResidentBytes < 600e6, `at most ${most} MiB resident`)
  t.same(watch.ends, [], 'it has not ended by itself')
  const count = (event: string) => daemon.log.filter(({ msg }) => msg === event).length
  t.comment(`delivery workers that died: ${count('delivery.worker_died')}; at most ${most} MiB resident`)

  await Promise.all([...tenants.map(({ producer }) => producer.stop()), ...victims.map((one) => one.stop())])
  for (const [place, tenant] of tenants.entries()) {
    const balance = await tenant.balance()
    t.match(
      balance,
      { missing: [], outOfOrder: [], unknown: [], skipped: 0, dropped: 0 },
      `tenant ${place}: ${balance.accepted} accepted, ${balance.arrived} arrived`,
    )
    t.ok(balance.accepted >= tenant.producer.sent / 2, `of ${tenant.producer.sent} sent`)
  }
})

/** Per attack how often it ran, what it was told, and what a neighbour saw meanwhile, kills included. */
function report(t: { comment(text: string): void }): void {
  for (const name of attackNames) {
    const of = runs.filter(({ attack }) => attack === name)
    const sum = (what: (seen: Seen) => number) => of.reduce((total, { seen }) => total + what(seen), 0)
    const statuses: Record<string, number> = {}
    for (const run of of)
      for (const [status, times] of Object.entries(run.statuses))
        statuses[status] = (statuses[status] ?? 0) + times
    const ms = (what: (seen: Seen) => number) => Math.round(median(of.map(({ seen }) => what(seen))))
    const perSecond = Math.round((1_000 * sum((seen) => seen.delivered)) / sum((seen) => seen.tookMs))
    t.comment(
      of.length === 0
        ? `${name}: not run`
        : `${name}: ${of.length} times; told ${JSON.stringify(statuses)}; neighbour: accepted ` +
            `${sum((seen) => seen.accepted)} of ${sum((seen) => seen.requests)}, delivered ${perSecond}/s, ` +
            `ingest ${ms((seen) => seen.ingestMs)} ms, health ${ms((seen) => seen.healthMs)} ms, pipes ${ms((seen) => seen.pipesMs)} ms`,
    )
  }
}
