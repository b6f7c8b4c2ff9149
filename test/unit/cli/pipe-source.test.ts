/** The source of webhooks from the command line: created, rotated, shown and removed; no secret is an argument. */
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
const pipectl = (args: string[], more: Record<string, string> = {}) =>
  runCli(args, { env: { ...env, ...more } })

async function hook(where: string, password: string): Promise<number> {
  const authorization = `Basic ${Buffer.from(`ada:${password}`).toString('base64')}`
  const options = { key: null, headers: { authorization } }
  return (await daemon.api('POST', `/v1/hooks/${where}`, { n: 1 }, options)).status
}
const pipeOf = async (name: string) => {
  const { body } = await daemon.api('GET', '/v1/pipes')
  return Object(body).pipes.find((pipe: { pipe_name: string }) => pipe.pipe_name === name)
}

t.test('a source is created, its secret rotated, its address shown, and it is removed', async (t) => {
  const file = path.join(home, 'first.secret')
  writeFileSync(file, 'first-pw\n')
  const made = await pipectl([
    ...['pipes', 'create', 'payments', '--source', 'basic', '--source-set', 'user=ada'],
    ...['--source-secret-file', file, '--source-header', 'x-event', '--source-raw'],
  ])
  t.equal(made.code, 0, made.stderr)
  const { pipe_id: id } = await pipeOf('payments')
  t.match(made.stdout, `/v1/hooks/${id}`)
  t.match(await pipeOf('payments'), {
    pipe_source: { type: 'basic', user: 'ada' },
    pipe_source_headers: ['x-event'],
    pipe_source_raw: true,
  })
  t.equal(await hook(id, 'first-pw'), 202, 'the newline at the end of the file is not part of the secret')
  const added = await pipectl(['pipes', 'update', 'payments', '--add-source-secret'], {
    PIPECTL_SOURCE_SECRET: 'second-pw',
  })
  t.equal(added.code, 0, added.stderr)
  t.same([await hook(id, 'first-pw'), await hook(id, 'second-pw')], [202, 202])
  const shown = await pipectl(['pipes', 'get', 'payments'])
  t.match(shown.stdout, /webhooks +POST http.*\/v1\/hooks\//)
  t.equal(shown.stdout.match(/source secret/g)?.length, 2)
  t.notMatch(shown.stdout + made.stdout + added.stdout, /first-pw|second-pw/)
  const removed = await pipectl(['pipes', 'update', 'payments', '--remove-source-secret', 'oldest'])
  t.equal(removed.code, 0, removed.stderr)
  t.same([await hook(id, 'first-pw'), await hook(id, 'second-pw')], [401, 202])
  const unknown = await pipectl(['pipes', 'update', 'payments', '--remove-source-secret', 'no-such'])
  t.equal(unknown.code, 2)
  t.equal((await pipectl(['pipes', 'update', 'payments', '--source', 'none'])).code, 0)
  t.equal(await hook(id, 'second-pw'), 404)
})

t.test('the token of a secret URL is shown once, and a second one can be added', async (t) => {
  const made = await pipectl(['pipes', 'create', 'calls', '--source', 'secret_url', '-o', 'json'])
  t.equal(made.code, 0, made.stderr)
  const { pipe_id: id, pipe_source_token: token } = JSON.parse(made.stdout)
  t.equal(await hook(`${id}/${token}`, 'any'), 202)
  const added = await pipectl(['pipes', 'update', 'calls', '--add-source-secret', '-o', 'json'])
  const { pipe_source_token: next } = JSON.parse(added.stdout)
  t.equal(await hook(`${id}/${next}`, 'any'), 202)
  t.equal(await hook(`${id}/${token}`, 'any'), 202)
  t.match((await pipectl(['pipes', 'get', 'calls'])).stdout, `/v1/hooks/${id}/TOKEN`)
})

t.test('a missing secret and a wrong setting are usage errors', async (t) => {
  const fails = async (args: string[], words: RegExp) => {
    const { code, stderr } = await pipectl(['pipes', 'create', 'wrong', ...args])
    t.equal(code, 2, args.join(' '))
    t.match(stderr, words)
  }
  await fails(['--source', 'github'], /PIPECTL_SOURCE_SECRET/)
  await fails(['--source', 'nobody'], /there is no such source/)
  await fails(['--source', 'hmac', '--source-set', 'colour=red'], /header, algorithm/)
  await fails(['--source', 'hmac', '--source-set', 'verify_token=x'], /PIPECTL_SOURCE_VERIFY_TOKEN/)
  t.equal((await pipectl(['pipes', 'create', 'none'])).code, 0)
  t.equal((await pipectl(['pipes', 'update', 'none', '--add-source-secret'])).code, 2)
})

t.test('a file declares the source, twice is no change, and export writes references', async (t) => {
  const file = path.join(home, 'pipectl.yaml')
  const text = (secrets: string, more = '') => `pipes:
  - pipe_name: shop
    pipe_source_headers: [X-Topic]
    pipe_source: {type: basic, user: ada, secrets: ${secrets}${more}}
  - pipe_name: open
    pipe_source: {type: secret_url}
`
  const run = (command: string, content: string, ...flags: string[]) => {
    writeFileSync(file, content)
    return pipectl([command, '-f', file, ...flags], { SHOP_PW: 'file-pw', SHOP_NEXT: 'next-pw' })
  }
  const one = text(`["\${SHOP_PW}"]`)
  const made = await run('apply', one, '--yes')
  t.equal(made.code, 0, made.stderr)
  t.match(made.stderr, /Webhooks of pipe open go to POST .*\/v1\/hooks\/[^/]+\/[\w-]{43} /)
  t.notMatch(made.stdout + made.stderr, 'file-pw')
  const { pipe_id: id } = await pipeOf('shop')
  t.equal(await hook(id, 'file-pw'), 202)
  t.equal((await run('diff', one)).code, 0, 'nothing to do')
  const two = text(`["\${SHOP_NEXT}", "\${SHOP_PW}"]`)
  t.match((await run('diff', two)).stdout, /~ pipe shop: pipe_source.secrets sent again/)
  t.equal((await run('apply', two, '--yes')).code, 0)
  t.same([await hook(id, 'file-pw'), await hook(id, 'next-pw')], [202, 202])
  const exported = await pipectl(['export'])
  t.match(exported.stdout, /secrets:\s+- \$\{SHOP_SOURCE_SECRET\}\s+- \$\{SHOP_SOURCE_SECRET_2\}/)
  const wrong = await run('apply', text(`["\${SHOP_PW}"]`, ', colour: red'), '--yes')
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, /line 4.*colour/)
  t.equal((await run('apply', 'pipes: [{pipe_name: shop, pipe_source: null}]', '--yes')).code, 0)
  t.equal(await hook(id, 'next-pw'), 404)
})
