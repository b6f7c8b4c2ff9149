/**
 * The npm package on the platforms that it is for, and on others: npx starts it without a network, a compiler or install scripts;
 * where its native parts do not fit, one line names the platform.
 */
import { execFile, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { finished, runCli } from '../support/cli.ts'
import { cleanEnv } from '../support/daemon.ts'
import { freePort } from '../support/free-port.ts'
import { rootBlocks } from '../support/guide-sections.ts'
import { installPackage } from '../support/package.ts'
import { until } from '../support/until.ts'

const project = new URL('../../', import.meta.url).pathname
const { nodeRelease, runtime } = await import(path.join(project, 'vendor/debian/node-runtime.mjs'))
const installed = await installPackage()
t.teardown(() => installed.remove())
const addons = 'node_modules/better-sqlite3/lib/binding'

t.test('npx starts a daemon from the file alone, in a folder that has nothing else', async (t) => {
  // Outside of the checkout: npx takes a program of the project that it is started in.
  const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-npx-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const port = await freePort()
  const env = cleanEnv({
    ...{ HOME: home, PATH: process.env.PATH ?? '', npm_config_cache: path.join(home, 'npm') },
    // Discard: a registry that is asked for anything is missed.
    ...{ npm_config_ignore_scripts: 'true', npm_config_registry: 'http://127.0.0.1:9' },
    ...{ PIPECTL_LISTEN: `127.0.0.1:${port}`, PIPECTL_METRICS_LISTEN: 'off' },
  })
  const file = path.basename(installed.tarball)
  cpSync(installed.tarball, path.join(home, file))
  const [guide = ''] = rootBlocks('install', 'npm package')
  t.equal(guide, `npx ./${file} serve --init\n`)
  const child = spawn('npx', ['--yes', ...guide.trim().split(' ').slice(1)], {
    cwd: home,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const end = finished(child)
  t.teardown(() => {
    const isRunning = child.exitCode === null && child.signalCode === null
    if (isRunning && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  })
  await until('the daemon is ready, or npx has ended', async () => {
    if (child.exitCode !== null) return true
    return (await fetch(`http://127.0.0.1:${port}/v1/ready`).catch(() => null))?.ok === true
  })
  if (child.exitCode !== null) throw new Error(`npx ended: ${JSON.stringify(await end)}`)
  const key = readFileSync(path.join(home, 'data/first-key'), 'utf8').trim()
  const pipe = await fetch(`http://127.0.0.1:${port}/v1/pipes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: '{"pipe_name":"events"}',
  })
  t.equal(pipe.status, 201)
  // As Ctrl+C does: to npx and the daemon.
  if (child.pid !== undefined) process.kill(-child.pid, 'SIGINT')
  await end
  t.notOk(existsSync(path.join(home, 'data/running')), 'it has stopped in order')
  t.same(JSON.parse(readFileSync(path.join(installed.folder, 'package.json'), 'utf8')).scripts, undefined)
})

t.test('the same package runs on Node.js 24', async (t) => {
  const node = path.join(nodeRelease(process.arch), 'bin/node')
  const program = path.join(installed.folder, 'bin/pipectl.js')
  const dataDir = path.join(t.testdir(), 'data')
  const run = async (...args: string[]) =>
    (await promisify(execFile)(node, [program, ...args, '--data-dir', dataDir], { env: cleanEnv() })).stdout
  t.match(JSON.parse(await run('init', '--json')), { workspace_name: 'default' })
  t.match(JSON.parse(await run('version', '--check-data-dir', '-o', 'json')), {
    node_version: `v${runtime.version}`,
    data_dir: { result: 'current' },
  })
})

t.test('a platform without native parts: one line, exit code 78, and nothing is written', async (t) => {
  const folder = path.join(t.testdir(), 'pipectl')
  cpSync(installed.folder, folder, { recursive: true })
  const program = path.join(folder, 'bin/pipectl.js')
  const dataDir = path.join(folder, 'data')
  const serve = () =>
    finished(
      spawn(process.execPath, [program, 'serve', '--init', '--data-dir', dataDir], {
        env: cleanEnv({ PIPECTL_LISTEN: '127.0.0.1:0', PIPECTL_METRICS_LISTEN: 'off' }),
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    )
  const platform = `for this platform: ${process.platform} ${process.arch} with Node.js ${process.versions.node}`

  // Built for another processor: it is there, and does not load.
  const addon = `${addons}/node-v${process.versions.modules}-linux-${process.arch}/better_sqlite3.node`
  writeFileSync(path.join(folder, addon), 'of another processor')
  const unloadable = await serve()
  t.equal(unloadable.code, 78, unloadable.stderr)
  t.match(unloadable.stderr, `error: pipectl has no native build of SQLite ${platform} (`)

  rmSync(path.join(folder, addons), { recursive: true })
  const absent = await serve()
  t.equal(absent.code, 78, absent.stderr)
  const [error, next, ...rest] = absent.stderr.trim().split('\n')
  t.equal(error, `error: pipectl has no native build of SQLite ${platform}`)
  t.match(next, /^ +next: .*Linux x64 and arm64 with glibc.*docs\/install\.md#platforms$/)
  t.same(rest, [])
  t.notOk(existsSync(dataDir))

  const version = await promisify(execFile)(process.execPath, [program, '--version'], { env: cleanEnv() })
  t.equal(version.stdout, (await runCli(['--version'])).stdout, 'commands without data work')
})
