/** The wheel and the source archive of the Python package: the same bytes each time, and installed by pip without a network. */
import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { cleanEnv, startDaemon } from '../support/daemon.ts'
import { openFaultyPipe } from '../support/ingest-faults.ts'
import { programFile } from '../support/programs.ts'
import { packageDir } from './python-scenarios.ts'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-wheel-'))
const daemon = await startDaemon()
t.teardown(async () => {
  rmSync(directory, { recursive: true, force: true })
  await daemon.close()
})
const env = cleanEnv({
  ...{ PYTHONDONTWRITEBYTECODE: '1', PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_NO_CACHE_DIR: '1' },
  ...{ PIP_ROOT_USER_ACTION: 'ignore', PIP_CONFIG_FILE: os.devNull },
})
const python = (args: string[], more: Record<string, string> = {}) =>
  run(programFile('python3'), args, { env: { ...env, ...more }, cwd: directory })

const packages = path.join(directory, 'packages')
await python([path.join(packageDir, 'build_backend.py'), packages])
const [wheel = '', archive = ''] = ['.whl', '.tar.gz'].map((end) =>
  path.join(packages, readdirSync(packages).find((name) => name.endsWith(end)) ?? ''),
)

t.test('the version is that of the daemon', async (t) => {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  t.equal(path.basename(wheel), `pipectl_client-${version}-py3-none-any.whl`)
  t.equal(path.basename(archive), `pipectl_client-${version}.tar.gz`)
})

t.test('a copy with other times, at another path, makes the same bytes', async (t) => {
  const copy = path.join(directory, 'another', 'place', 'python')
  mkdirSync(path.dirname(copy), { recursive: true })
  cpSync(packageDir, copy, { recursive: true })
  cpSync(path.join(root, 'LICENSE'), path.join(copy, 'LICENSE'))
  for (const name of readdirSync(copy, { recursive: true, encoding: 'utf8' }))
    utimesSync(path.join(copy, name), 1, 1)
  const again = path.join(directory, 'again')
  await python([path.join(copy, 'build_backend.py'), again], { TZ: 'Asia/Tokyo', LC_ALL: 'C' })
  for (const file of [wheel, archive])
    t.ok(readFileSync(file).equals(readFileSync(path.join(again, path.basename(file)))), file)
})

const program = `
import pipectl
with pipectl.Client() as client:
    client.send({"n": 1})
assert client.stats.stored == 1
print(pipectl.__version__, pipectl.__file__)
`

for (const file of [wheel, archive]) {
  t.test(`pip installs ${path.basename(file)} without a network, and it sends`, async (t) => {
    const target = path.join(directory, `installed${path.extname(file)}`)
    // The build of the archive needs no package either, so pip has nothing to fetch.
    await python(['-m', 'pip', 'install', '--quiet', '--no-index', '--no-deps', '--target', target, file])
    const pipe = await openFaultyPipe(daemon)
    const { stdout } = await python(['-c', program], { ...pipe.env, PYTHONPATH: target })
    t.ok(stdout.includes(target), stdout)
    t.same(await pipe.arrived(), [{ n: 1 }])
    t.ok(readdirSync(path.join(target, 'pipectl')).includes('py.typed'))
    const info = readdirSync(target).find((name) => name.endsWith('.dist-info')) ?? ''
    t.match(readFileSync(path.join(target, info, 'METADATA'), 'utf8'), /^License: Apache-2\.0$/m)
    t.ok(readdirSync(path.join(target, info)).some((name) => name.startsWith('LICENSE')))
    pipe.close()
  })
}

t.test('the programs of the guide run as they are', async (t) => {
  const guide = readFileSync(path.join(root, 'docs/sdk-python.md'), 'utf8')
  const blocks = [...guide.matchAll(/^```python\n([\s\S]*?)^```/gm)].map(([, text = '']) => text)
  t.equal(blocks.length, 3)
  const pipe = await openFaultyPipe(daemon)
  for (const block of blocks) {
    const own = block
      .replace('https://pipes.example.com/v1/ingest/PIPE_ID', pipe.env.PIPECTL_INGEST_URL ?? '')
      .replace('ppl1_…', pipe.env.PIPECTL_API_KEY ?? '')
      .replace('/var/tmp/shop-records', path.join(directory, 'records'))
    await python(['-c', own], { ...pipe.env, PYTHONPATH: packageDir })
  }
  const signup = { event: 'signup', user_id: 42 }
  t.same(await pipe.arrived(), [signup, signup, { event: 'paid', order: 7 }])
  pipe.close()
})

t.test('the types are complete, and find a wrong call', async (t) => {
  const mypy = (...args: string[]) =>
    run('mypy', ['--strict', '--cache-dir', os.devNull, '--python-version', '3.9', ...args], {
      env: { ...env, MYPYPATH: packageDir },
      cwd: directory,
    })
  await mypy(path.join(packageDir, 'pipectl'), path.join(packageDir, 'build_backend.py'))
  const wrong = path.join(directory, 'wrong.py')
  writeFileSync(wrong, 'import pipectl\n\npipectl.Client().send(5)\npipectl.Client(when_full="wait")\n')
  const { stdout } = await mypy(wrong).then(
    () => ({ stdout: 'no error' }),
    (error: { stdout: string }) => error,
  )
  t.match(stdout, /wrong\.py:3: error.*\n.*wrong\.py:4: error/)
})
