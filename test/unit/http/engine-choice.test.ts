/** `http.engine`: what is loaded, and what happens where no binding can be. */
import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { cleanEnv, startDaemon, TestDaemon } from '../../support/daemon.ts'
import { testedEngine } from '../../support/http-engine.ts'

const run = promisify(execFile)
const root = new URL('../../../', import.meta.url).pathname
const withoutBinding = { NODE_OPTIONS: `--require=${root}test/support/no-binding.cjs` }

const hasBinding = (pid: number) => /\/uws_[^/]*\.node/.test(readFileSync(`/proc/${pid}/maps`, 'utf8'))
const fallbacks = (daemon: TestDaemon) => daemon.log.filter(({ msg }) => msg === 'http.engine_fallback')
const ready = (daemon: TestDaemon) => daemon.log.find(({ msg }) => msg === 'daemon.ready')

t.test('auto takes uWebSockets; with node no native binding is loaded', async (t) => {
  const choices = [
    ['node', 'node'],
    ['auto', 'uws'],
    ['uws', 'uws'],
  ] as const
  // On a Node.js without a binding there is one choice.
  for (const [wanted, name] of testedEngine === 'node' ? choices.slice(0, 1) : choices) {
    const daemon = await startDaemon({ env: { PIPECTL_HTTP_ENGINE: wanted } })
    t.teardown(() => daemon.close())
    t.same(
      [ready(daemon)?.http_engine, hasBinding(daemon.pid), fallbacks(daemon)],
      [name, name === 'uws', []],
    )
    t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
    await daemon.stop()
  }
})

t.test('where no binding loads, auto serves over node:http and says why', async (t) => {
  const daemon = await startDaemon({ env: { ...withoutBinding, PIPECTL_HTTP_ENGINE: 'auto' } })
  t.teardown(() => daemon.close())
  t.match(fallbacks(daemon), [{ level: 'warn', engine: 'node', reason: /GLIBC_9\.99/ }])
  t.equal(ready(daemon)?.http_engine, 'node')
  const pipe = await daemon.createPipe({ pipe_name: 'portable' })
  t.equal((await daemon.ingest(pipe, { a: 1 })).records_count, 1)
})

t.test('where no binding loads, uws does not start: exit 78, and what to do', async (t) => {
  const daemon = await startDaemon({ env: { PIPECTL_HTTP_ENGINE: 'node' } })
  t.teardown(() => daemon.close())
  await daemon.stop()
  const env = { ...withoutBinding, PIPECTL_HTTP_ENGINE: 'uws' }
  const other = new TestDaemon({ dataDir: daemon.dataDir, env })
  await t.rejects(other.start(), /ended with 78/)
  t.match(other.noise.join('\n'), /^error: no uWebSockets binding loads .*http\.engine = "node".*GLIBC_9\.99/)
})

/** The loader with the bindings of this platform, in a node_modules of its own. */
function installedCopy(): { dir: string; files: string[] } {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-bindings-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  cpSync(path.join(root, 'vendor', 'uwebsockets.js'), path.join(dir, 'node_modules', 'uWebSockets.js'), {
    recursive: true,
  })
  const name = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`
  const files: string[] = []
  for (const folder of ['@btc-vision/uwebsockets.js', '@trufflesuite/uws-js-unofficial/binaries']) {
    const from = path.join(root, 'node_modules', folder, name)
    if (!existsSync(from)) continue
    const to = path.join(dir, 'node_modules', folder, name)
    mkdirSync(path.dirname(to), { recursive: true })
    cpSync(from, to)
    files.push(to)
  }
  return { dir, files }
}

async function load(dir: string): Promise<string> {
  const { stdout } = await run(
    process.execPath,
    [
      '-e',
      'try { console.log(typeof require("uWebSockets.js").App) } catch (e) { console.log(e.code, e.message) }',
    ],
    { cwd: dir, env: cleanEnv() },
  )
  return stdout.trim()
}

t.test('a binding that is not byte for byte the pinned one is not loaded', async (t) => {
  const { dir, files } = installedCopy()
  if (testedEngine !== 'node') t.equal(await load(dir), 'function', 'as it was installed it is')
  for (const file of files) {
    const bytes = readFileSync(file)
    // The last byte is of no use to the loader of the system: the binding would work.
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(file, bytes)
  }
  const said = await load(dir)
  t.match(said, /^UWS_BINDING_UNAVAILABLE no uWebSockets binding loads/)
  t.equal(said.match(/not the one that was pinned: SHA-256 [0-9a-f]{64}/g)?.length, files.length)
})

t.test(
  'every binding that is installed for Linux or macOS on a Node.js that pipectl runs on is pinned',
  async (t) => {
    const pinned = readFileSync(path.join(root, 'vendor/uwebsockets.js/SHA256SUMS'), 'utf8')
    for (const folder of ['@btc-vision/uwebsockets.js', '@trufflesuite/uws-js-unofficial/binaries']) {
      const files = readdirSync(path.join(root, 'node_modules', folder))
      const ours = files.filter((file) => /^uws_(linux|darwin)_(x64|arm64)_(115|127|137)\.node$/.test(file))
      t.ok(ours.length > 3)
      for (const file of ours) t.match(pinned, `  ${folder}/${file}\n`)
    }
  },
)
