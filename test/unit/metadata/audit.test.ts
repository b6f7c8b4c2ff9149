/** The audit log in the file: neither a change nor its entry without the other, bounded in size, number and age. */
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import type { AuditQuery } from '../../../src/metadata/audit.ts'
import { refuseRows, rowsOf } from './database.ts'
import { newPipe, newWorkspace, open, testFile } from './fixture.ts'

const everything: AuditQuery = {
  limit: 500,
  after: null,
  operation: null,
  resourceId: null,
  sinceMs: null,
  pipeIds: null,
}

t.test(
  'a change whose entry cannot be stored is not there, and no entry of a change that failed',
  async (t) => {
    const options = testFile(t)
    const metadata = await open(t, options)
    const own = await newWorkspace(metadata, 'own')
    await newPipe(metadata, own, 'taken')
    const before = (await metadata.audit.list(own, everything)).entries.length
    await t.rejects(newPipe(metadata, own, 'taken'), { code: 'duplicate_pipe_name' })
    t.equal((await metadata.audit.list(own, everything)).entries.length, before)
    const allow = await refuseRows(options, 'audit_log', 'no entry')
    await t.rejects(newPipe(metadata, own, 'unseen'))
    await t.rejects(
      metadata.users.createSetupLink(own, { role: 'admin', hash: 'h', expiresMs: Date.now() + 1e6 }),
    )
    t.equal(await metadata.users.hasSetupLink('h'), false)
    t.strictSame(
      (await metadata.pipes.list(own)).map((pipe) => pipe.pipe_name),
      ['taken'],
    )
    await allow()
    await newPipe(metadata, own, 'unseen')
    t.match(
      (await metadata.audit.list(own, everything)).entries,
      [{ after: { pipe_name: 'unseen' } }],
      'control',
    )
  },
)

t.test('a state that is too large is left out, and says so', async (t) => {
  const metadata = await open(t, testFile(t))
  const own = await newWorkspace(metadata, 'own')
  const record = (text: string) =>
    metadata.audit.record({
      ...{ workspaceId: own, operation: 'test', resourceId: null, pipeId: null, before: null },
      after: { text },
    })
  await record('x'.repeat(resourceLimits.auditStateBytes))
  await record('y'.repeat(100))
  const { entries } = await metadata.audit.list(own, { ...everything, operation: 'test' })
  t.strictSame(
    entries.map(({ after }) => after),
    [{ text: 'y'.repeat(100) }, { left_out: `${resourceLimits.auditStateBytes + 11} bytes` }],
  )
})

t.test('of more entries than a workspace keeps the oldest goes; those of another one stay', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const [own, other] = [await newWorkspace(metadata, 'own'), await newWorkspace(metadata, 'other')]
  const most = resourceLimits.auditEntriesPerWorkspace
  await rowsOf(
    options,
    `INSERT INTO audit_log (workspace_id, audit_id, audit_ms, operation, actor_kind) VALUES (?, ?, 5, 'old', 'local')`,
    own,
    most,
  )
  const ids = async () => (await metadata.audit.list(own, everything)).entries.map((entry) => entry.audit_id)
  t.strictSame(await ids(), [most, 1], 'control')
  await newPipe(metadata, own, 'one-more')
  t.strictSame(await ids(), [most + 1, most])
  t.equal((await metadata.audit.list(other, everything)).entries.length, 1)
})

t.test('what is older goes, in steps, and nothing that is not', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const own = await newWorkspace(metadata, 'own')
  await rowsOf(options, 'DELETE FROM audit_log')
  const many = resourceLimits.auditPrunedAtOnce * 2 + 3
  await rowsOf(
    options,
    `WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?)
    INSERT INTO audit_log (workspace_id, audit_id, audit_ms, operation, actor_kind) SELECT ?, id, id, 'old', 'local' FROM n`,
    many,
    own,
  )
  await metadata.audit.prune(many)
  t.match((await metadata.audit.list(own, everything)).entries, [{ audit_id: many }])
  t.equal((await metadata.audit.list(own, everything)).entries.length, 1)
})

t.test('a workspace sees its own, and completes only its own', async (t) => {
  const metadata = await open(t, testFile(t))
  const [own, other] = [await newWorkspace(metadata, 'own'), await newWorkspace(metadata, 'other')]
  const id = await metadata.audit.record({
    ...{ workspaceId: own, operation: 'retryNow', resourceId: null, pipeId: null, before: null },
    after: { status: 'requested' },
  })
  await metadata.audit.complete(other, id, { status: 'taken' })
  const [entry] = (await metadata.audit.list(own, everything)).entries
  t.strictSame(entry?.after, { status: 'requested' })
  await metadata.audit.complete(own, id, { status: 'retried' })
  t.strictSame((await metadata.audit.list(own, everything)).entries[0]?.after, { status: 'retried' })
  t.strictSame(
    (await metadata.audit.list(other, everything)).entries.map((one) => one.operation),
    ['createWorkspace'],
  )
})
