/** Idempotency keys that the nodes of a cluster share in PostgreSQL. */
import t, { type Test } from 'tap'
import { type KeyStore, keyLifetimeMs, type NewClaim } from '../../../src/log/key-store.ts'
import { startClusterServer } from '../../support/cluster-database.ts'

const server = await startClusterServer(t)
const hourMs = 3_600_000
const tables = 6

async function twoNodes(
  t: Test,
): Promise<[KeyStore, KeyStore, (sql: string) => Promise<Record<string, unknown>[]>]> {
  const database = await server.create(t)
  const other = await database.open()
  const name = new URL(database.url).pathname.slice(1)
  const pg = (await import('pg')).default
  const { postgres } = server
  const client = new pg.Client({ ...postgres, database: name })
  await client.connect()
  t.teardown(() => client.end())
  return [database.metadata.cluster!.keys, other.cluster!.keys, async (sql) => (await client.query(sql)).rows]
}

const claim = (keyHash: string, attemptId: string, more: Partial<NewClaim> = {}): NewClaim => ({
  ...{ keyHash, attemptId, bodyHash: 'body', pipeId: 'pipe', chain: 'chain', afterSeq: 7 },
  ...{ msgId: `message of ${attemptId}`, recordCount: 2, ...more },
})

t.test('of claims at once, in any order, each key has one', async (t) => {
  const [here, there] = await twoNodes(t)
  const hashes = Array.from({ length: 200 }, (_, n) => `key ${n}`)
  const found = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      [here, there][n % 2]!.claim(
        (n % 3 === 0 ? hashes : [...hashes].reverse()).map((hash) => claim(hash, `attempt ${n}`)),
      ),
    ),
  )
  const owners = hashes.map((hash) =>
    found.map(({ pending }) => pending.find(({ keyHash }) => keyHash === hash)?.attemptId),
  )
  for (const owner of owners) {
    t.equal(new Set(owner).size, 1, 'all are told the same')
    t.type(owner[0], 'string')
  }
})

t.test('a claim becomes a used key once, and a used key is claimed by nobody', async (t) => {
  const [here, there] = await twoNodes(t)
  const { pending } = await here.claim([claim('k', 'a'), claim('other', 'a')])
  t.equal(pending.length, 2)
  const settled = pending.filter(({ keyHash }) => keyHash === 'k').map((one) => ({ ...one, seq: 2 ** 50 }))
  await Promise.all([here.settle(settled), there.settle(settled)])
  const used = { keyHash: 'k', bodyHash: 'body', msgId: 'message of a', recordCount: 2, seq: 2 ** 50 }
  t.same(await there.find(['k']), { used: [used], pending: [] })
  t.same(await there.claim([claim('k', 'b')]), { used: [used], pending: [] })
  t.same(
    (await there.attempts()).map(({ attemptId }) => attemptId),
    ['a'],
    'the other key is still claimed',
  )
  await here.release([{ keyHash: 'other', attemptId: 'b' }])
  t.equal((await here.find(['other'])).pending.length, 1, 'the claim of another attempt is not touched')
  await here.release([{ keyHash: 'other', attemptId: 'a' }])
  t.same(await here.find(['other']), { used: [], pending: [] })
  await here.settle(pending.map((one) => ({ ...one, seq: 1 })))
  t.same(await here.find(['other']), { used: [], pending: [] }, 'what was released is not settled')
})

t.test('claims of silent nodes are found by their age', async (t) => {
  const [here, there, query] = await twoNodes(t)
  await here.claim([claim('old', 'a')])
  await query(`UPDATE key_claims SET claimed_ms = claimed_ms - ${hourMs}`)
  await here.claim([claim('new', 'b')])
  t.match(await there.pendingFor(60_000, 10), [claim('old', 'a')])
  t.equal((await there.pendingFor(0, 1)).length, 1)
})

t.test('a key is used for 24 h, in whichever table it is, and whole tables are emptied then', async (t) => {
  const [here, , query] = await twoNodes(t)
  const nowMs = Number((await query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms'))[0]?.ms)
  const ages = Array.from({ length: 80 }, (_, n) => n * 0.5 * hourMs)
  for (const [n, age] of ages.entries()) {
    const { pending } = await here.claim([claim(`key ${n}`, `attempt ${n}`)])
    await query(`UPDATE key_claims SET claimed_ms = ${Math.round(nowMs - age)}`)
    await here.settle(pending.map((one) => ({ ...one, seq: n, claimedMs: Math.round(nowMs - age) })))
  }
  const alive = async () =>
    (await here.find(ages.map((_, n) => `key ${n}`))).used.map(({ seq }) => seq).sort((a, b) => a - b)
  const expected = ages.flatMap((age, n) => (age < keyLifetimeMs ? [n] : []))
  t.same(await alive(), expected)
  const rows = async () => {
    let sum = 0
    for (let table = 0; table < tables; table += 1)
      sum += Number((await query(`SELECT count(*) FROM used_keys_${table}`))[0]?.count)
    return sum
  }
  const before = await rows()
  await here.prune()
  t.ok((await rows()) < before, 'something was dropped')
  t.same(await alive(), expected, 'and nothing that is younger than 24 h')
})

t.test('keys that are moved in are used from now on', async (t) => {
  const [here, there] = await twoNodes(t)
  const used = { keyHash: 'k', bodyHash: 'body', msgId: 'm', recordCount: 1, seq: 5_000 }
  await here.add([used])
  await here.add([{ ...used, seq: 6_000 }])
  t.same(await there.find(['k', 'free']), { used: [{ ...used, seq: 6_000 }], pending: [] })
})
