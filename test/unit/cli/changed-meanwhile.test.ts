/**
 * Every command that reads and then writes, through a proxy at which someone else is quicker: just before a change of settings passes, it
 * makes another one.
 */
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
/** Called once, before the next request that is no GET; null: nobody interferes. */
let interfere: (() => Promise<unknown>) | null = null
const proxy = http.createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  if (request.method !== 'GET' && interfere !== null) {
    const other = interfere
    interfere = null
    await other()
  }
  const { host: _, connection: __, ...headers } = request.headers
  const forwarded = http.request(daemon.url + request.url, { method: request.method, headers }, (from) => {
    response.writeHead(from.statusCode ?? 500, from.headers)
    from.pipe(response)
  })
  forwarded.end(Buffer.concat(chunks))
})
await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
t.teardown(async () => {
  proxy.close()
  proxy.closeAllConnections()
  await daemon.close()
  removeHome(home)
})
const env = {
  ...cliEnv(daemon, home),
  PIPECTL_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
}
const pipectl = (...args: string[]) => runCli(args, { env })

async function newPipe(name: string) {
  const pipe = `/v1/pipes/${await daemon.createPipe({ pipe_name: name })}`
  const settings = { destination_type: 'destination_pull', destination_name: 'queue', destination_config: {} }
  const { body } = await daemon.api('POST', `${pipe}/destinations`, settings)
  return { pipe, destination: `${pipe}/destinations/${body.destination_id}` }
}
const change = async (method: string, where: string, body: unknown) => {
  const { status, text } = await daemon.api(method, where, body)
  if (status >= 300) throw new Error(text)
}

const limits = {
  pl_ingest_max_records_per_request: 10,
  pl_ingest_max_records_per_second: 10,
  pl_ingest_max_records_per_day: 10,
  pl_delivery_max_records_per_flush: 10,
  pl_delivery_max_bytes_per_flush: 1_000,
  pl_delivery_max_seconds_per_flush: 1,
}

const describe = (pipe: string) => change('PATCH', pipe, { pipe_description: 'theirs' })
const retry = (destination: string) => change('PATCH', destination, { destination_max_retry_seconds: 70 })
type Paths = Awaited<ReturnType<typeof newPipe>>
/** Each with what the other person does, and how the difference is shown. */
const commands: [args: string, other: (paths: Paths) => Promise<unknown>, difference: RegExp][] = [
  [
    'pipes update NAME --description mine',
    ({ pipe }) => describe(pipe),
    /pipe\.pipe_description: "" → "theirs"/,
  ],
  ['pipes pause NAME --yes', ({ pipe }) => describe(pipe), /pipe\.pipe_description: "" → "theirs"/],
  ['pipes delete NAME --yes', ({ pipe }) => describe(pipe), /pipe\.pipe_description: "" → "theirs"/],
  [
    'limits set NAME --records-per-second 7',
    ({ pipe }) => change('PUT', `${pipe}/limits`, { ...limits, pl_ingest_max_records_per_day: 99 }),
    /limits\.pl_ingest_max_records_per_day: 10 → 99/,
  ],
  ['limits clear NAME --yes', ({ pipe }) => describe(pipe), /pipe\.pipe_description/],
  [
    'destinations update NAME/queue --name other',
    ({ destination }) => retry(destination),
    /destination\.destination_max_retry_seconds: \d+ → 70/,
  ],
  [
    'destinations delete NAME/queue --yes',
    ({ destination }) => retry(destination),
    /destination\.destination_max_retry_seconds: \d+ → 70/,
  ],
  [
    'alerts set --events lane.stuck',
    () => change('PUT', '/v1/alerts', { url: 'http://127.0.0.1:9/theirs' }),
    /alerts\.url: "http:\/\/127\.0\.0\.1:9\/hook" → "http:\/\/127\.0\.0\.1:9\/theirs"/,
  ],
  [
    'alerts clear --yes',
    () => change('PUT', '/v1/alerts', { url: 'http://127.0.0.1:9/theirs' }),
    /alerts\.url: /,
  ],
]

for (const [at, [args, other, difference]] of commands.entries()) {
  t.test(
    `${args}: nothing is done, what is different is listed, and the same command then works`,
    async (t) => {
      const paths = await newPipe(`one-${at}`)
      await change('PUT', `${paths.pipe}/limits`, limits)
      await change('PUT', '/v1/alerts', { url: 'http://127.0.0.1:9/hook' })
      const words = args.replace('NAME', `one-${at}`).split(' ')
      interfere = () => other(paths)
      const rejected = await pipectl(...words)
      t.equal(interfere, null, 'the other change came first')
      t.match(rejected, {
        code: 5,
        stderr: /^error: someone else has changed .* in the meantime, and nothing was done:/,
      })
      t.match(rejected.stderr, difference)
      t.equal(rejected.stderr.match(/ → /g)?.length, 1, rejected.stderr)
      t.match(rejected.stderr, /\n {2}next: run the command again/)
      t.equal((await daemon.api('GET', paths.destination)).status, 200, 'nothing was deleted')
      t.match(await pipectl(...words), { code: 0 })
    },
  )
}

t.test('apply: the steps before are done, the one that was overtaken is not', async (t) => {
  const { destination } = await newPipe('declared')
  const file = path.join(home, 'workspace.yaml')
  writeFileSync(
    file,
    `pipes:
  - pipe_name: declared
    pipe_description: mine
    destinations:
      - destination_type: destination_pull
        destination_name: queue
        destination_max_retry_seconds: 90
        destination_config: {}
`,
  )
  const apply = () => pipectl('apply', '-f', file, '--yes')
  interfere = () => retry(destination)
  const rejected = await apply()
  t.match(rejected, { code: 5, stderr: /destination_max_retry_seconds: \d+ → 70/ })
  t.match(rejected.stderr, /1 of 2 changes were made\n {2}next: .*then apply again/)
  t.match((await daemon.api('GET', destination)).body, { destination: { destination_max_retry_seconds: 70 } })
  t.match(await apply(), { code: 0, stderr: /Applied 1 change/ })
  t.match((await daemon.api('GET', destination)).body, { destination: { destination_max_retry_seconds: 90 } })
})
