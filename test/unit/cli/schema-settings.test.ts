/** The schema of a pipe as a setting: `pipes create` and `update`, and manifests. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { sharedDaemon } from '../../support/shared-daemon.ts'

const daemon = await sharedDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const pipectl = (args: string[], input?: string) =>
  runCli(args, { env, ...(input !== undefined && { input }) })
const file = (name: string, text: string) => {
  const at = path.join(home, name)
  writeFileSync(at, text)
  return at
}
const pipeOf = async (name: string) => {
  const { body } = await daemon.api('GET', '/v1/pipes')
  return Object(body).pipes.find((pipe: { pipe_name: string }) => pipe.pipe_name === name)
}
const schema = { type: 'object', properties: { n: { type: 'integer', maximum: 9 } }, required: ['n'] }

t.test('pipes create and update: --schema, --schema-on-mismatch, --schema-tag-field', async (t) => {
  const at = file('n.schema.json', JSON.stringify(schema))
  const created = await pipectl(['pipes', 'create', 'flags', '--schema', at, '--schema-on-mismatch', 'tag'])
  t.equal(created.code, 0, created.stderr)
  t.match(await pipeOf('flags'), {
    pipe_schema: schema,
    pipe_schema_on_mismatch: 'tag',
    pipe_schema_tag_field: 'schema_errors',
  })
  const update = (...args: string[]) => pipectl(['pipes', 'update', 'flags', ...args])
  t.equal((await update('--schema-tag-field', 'faults')).code, 0)
  t.match(await pipeOf('flags'), { pipe_schema: schema, pipe_schema_tag_field: 'faults' })
  t.equal((await update('--schema-on-mismatch', 'park')).code, 0)
  t.match((await pipectl(['pipes', 'get', 'flags', '-o', 'table'])).stdout, /park/)
  const wrong = file('wrong.schema.json', '{"properties":{"n":{"maximun":9}}}')
  const rejected = await update('--schema', wrong)
  t.equal(rejected.code, 2, rejected.stderr)
  t.match(rejected.stderr, /maximun/)
  t.equal((await update('--schema', file('broken.json', '{"a":'))).code, 2)
  t.equal((await update('--schema', path.join(home, 'none.json'))).code, 2)
  t.equal((await update('--schema-on-mismatch', 'drop')).code, 2)
  t.match(await pipeOf('flags'), { pipe_schema: schema, pipe_schema_on_mismatch: 'park' })
  t.equal((await update('--schema', 'none')).code, 0)
  t.equal((await pipeOf('flags')).pipe_schema, null)
})

t.test('manifests: applied, changed, exported and removed; a wrong one names its line', async (t) => {
  const manifest = (settings: string) => file('pipes.yaml', `pipes:\n  - pipe_name: declared\n${settings}`)
  const settings = `    pipe_schema_on_mismatch: park
    pipe_schema: {type: object, properties: {n: {type: integer, maximum: 9}}, required: [n]}
`
  const apply = (text: string) => pipectl(['apply', '-f', manifest(text)])
  t.equal((await apply(settings)).code, 0)
  t.match(await pipeOf('declared'), { pipe_schema: schema, pipe_schema_on_mismatch: 'park' })
  const again = await apply(settings)
  t.match(again.stderr, /Nothing to change/)
  const changed = await apply(settings.replace('maximum: 9', 'maximum: 10'))
  t.match(changed.stdout, /~ pipe declared: pipe_schema/)
  t.equal((await pipeOf('declared')).pipe_schema.properties.n.maximum, 10)
  const wrong = await apply(settings.replace('maximum: 9', 'maximun: 9'))
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, /pipes\.yaml, line 4: pipe_schema: \/properties\/n\/maximun is not a keyword/)
  t.equal((await pipeOf('declared')).pipe_schema.properties.n.maximum, 10, 'nothing was changed')
  const exported = await pipectl(['export'])
  t.match(exported.stdout, /pipe_schema_on_mismatch: park/)
  const restored = await pipectl(['diff', '-f', file('exported.yaml', exported.stdout)])
  t.match(restored, { code: 0, stdout: '' }, 'what is exported is what is there')
  t.equal((await apply('    pipe_schema: null\n')).code, 0)
  t.equal((await pipeOf('declared')).pipe_schema, null)
})
