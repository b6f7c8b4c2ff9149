/**
 * The attacks of one workspace, destination or message hardly affect its neighbours: each attack once stopped the
 * daemon. Another workspace runs at the same time, and its success and speed are compared with its own without the
 * attack.
 */
import t from 'tap'
import { Attacker } from '../support/attacks/attacker.ts'
import type { AttackName } from '../support/attacks/attacks.ts'
import { harm, inWords, type Seen, Victim } from '../support/attacks/victim.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'
import { standStill } from '../support/stand-still.ts'

const table: [finding: string, attack: AttackName][] = [
  ['C1: values that take long to look at', 'sendSlowValues'],
  ['C2: a PostgreSQL server that hangs its parser', 'hangPostgres'],
  ['C2: servers that answer wrongly in every way', 'answerWrongly'],
  ['C3: kilobytes that become millions of records', 'multiplyRecords'],
  ['C4: bodies that decompress to megabytes', 'sendBombs'],
  ['H1: a crowd of idle connections', 'crowd'],
  ['H2: servers that go silent while they are tested, changed and deleted', 'testDestinations'],
  ['H3: forty lanes that hold memory for as long as they may', 'neverAnswer'],
  ['H4: names that nobody answers for', 'nameNobody'],
  ['H5: bodies that take long to parse', 'sendCostlyJson'],
  ['H6: bodies of one-byte chunks', 'sendByteByByte'],
  ['H7: a pipe that fills the buffer', 'fillBuffer'],
  ['H8: answers without end', 'answerEndlessly'],
  ['H9: pulls that are not read', 'leavePullsUnread'],
  ['M1: requests that can be read two ways', 'smuggle'],
  ['M2: errors of megabytes', 'reportHugeErrors'],
  ['M6: records that all look different', 'sendManyShapes'],
  ['M7: keys by the hundred', 'makeKeys'],
  ['M9: uploads that never end', 'uploadSlowly'],
  ['L12: management bodies in which everything is wrong', 'sendWrongBodies'],
]
const messages = 40
/** A machine that is busy with something else for a moment is no attack. */
const tries = 4

const daemon = await startDaemon({
  env: {
    PIPECTL_BUFFER_MAX_BYTES: '256MiB',
    PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '16MiB',
    PIPECTL_DELIVERY_MAX_IN_FLIGHT_BYTES: '32MiB',
    PIPECTL_INGEST_MAX_IN_FLIGHT_BYTES: '64MiB',
  },
})
t.teardown(() => daemon.close())
const attacker = await Attacker.open()
t.teardown(() => attacker.close())
const rogue = await createWorkspace(daemon.dataDir, 'rogue')
const { url, dataUrl } = daemon
const target = { url, dataUrl, apiKey: rogue.api_key, apiKeyId: rogue.api_key_id }
const victim = await Victim.open(daemon)
t.teardown(() => victim.stop())

await victim.look(messages, 60_000)
let calm = await victim.look(messages, 60_000)
t.comment(`calm: ${inWords(calm)}`)
t.equal(calm.accepted, calm.requests)
const limitMs = (without: Seen) => Math.max(3_000, 4 * without.tookMs)
const { pid } = daemon

for (const [index, [finding, attack]] of table.entries()) {
  t.test(`${finding}: the neighbour goes on`, async (t) => {
    for (let attempt = 1; ; attempt += 1) {
      await attacker.start(attack, target, 100 * index + attempt)
      const seen = await victim.look(messages, limitMs(calm))
      const statuses = await attacker.stop()
      const found = harm(calm, seen)
      t.comment(`${attack}: ${inWords(seen)}; the attacker: ${JSON.stringify(statuses)}`)
      if (found.length > 0 && attempt < tries) {
        t.comment(`again, because ${found.join(', ')}`)
        await victim.look(messages, 60_000)
        calm = await victim.look(messages, 60_000)
        continue
      }
      t.same(found, [], inWords(calm))
      return
    }
  })
}

t.test('the process has lived through all of it', async (t) => {
  t.equal(daemon.pid, pid)
  t.equal((await daemon.api('GET', '/v1/health')).status, 200)
  t.same(daemon.noise, [])
})

t.test('negative control: a daemon that stands still is noticed', async (t) => {
  standStill(daemon.pid)
  const seen = await victim.look(messages, 2_000)
  daemon.signal('SIGCONT')
  t.match(harm(calm, seen), ['less than half is delivered'])
  t.ok(harm(calm, seen).includes('management is slow'))
})
