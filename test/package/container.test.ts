/** Dockerfile and compose.yaml as texts. image.test.ts builds and runs them. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { endOfSupport } from '../../src/platform/node-bugs.ts'
import { rootBlocks } from '../support/guide-sections.ts'
import { startHttpSink } from '../support/http-sink.ts'

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')

/** Instructions with their arguments; lines that go on are joined. */
function instructions(dockerfile: string): [string, string][] {
  const joined = dockerfile.replace(/^#.*\n/gm, '').replace(/\\\n\s*/g, '')
  return joined
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => [line.split(' ')[0] ?? '', line.slice(line.indexOf(' ') + 1)])
}

const dockerfile = instructions(read('Dockerfile'))
const last = (name: string) => dockerfile.findLast(([one]) => one === name)?.[1] ?? ''

t.test('the Dockerfile has only instructions that there are, and lists that are JSON', async (t) => {
  const known = 'ARG FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD'.split(' ')
  t.same(
    dockerfile.filter(([name]) => !known.includes(name)),
    [],
  )
  t.same(JSON.parse(last('ENTRYPOINT')), ['/usr/bin/pipectl'])
  t.same(JSON.parse(last('CMD')), ['serve', '--init'])
  const { scripts } = JSON.parse(read('package.json'))
  for (const [, name] of read('Dockerfile').matchAll(/npm run ([\w:]+)/g))
    t.ok(String(name) in scripts, String(name))
})

t.test('the guide’s command makes the sealing key, for the user of the image alone', async (t) => {
  const [block = ''] = rootBlocks('install', 'Containers')
  const [command = ''] = block.split('\n')
  t.match(read('compose.yaml'), `#   ${command}\n`)
  const directory = t.testdir()
  execFileSync('sh', ['-ec', command.replace('sudo ', '')], { cwd: directory, stdio: 'pipe' })
  const file = path.join(directory, 'sealing.key')
  t.equal(Buffer.from(readFileSync(file, 'utf8'), 'base64').length, 32)
  const { mode, uid, gid } = statSync(file)
  t.same([mode & 0o777, uid, gid], [0o600, 990, 990])
})

t.test('its Debian is one on which uWebSockets loads, and its Node.js gets security fixes', async (t) => {
  const stages = dockerfile.filter(([name]) => name === 'FROM').map(([, argument]) => argument)
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of the file
  t.same(stages, ['${BUILDER} AS build', '${BASE}'])
  const [build, image] = dockerfile
    .filter(([name, value]) => name === 'ARG' && /^(BUILDER|BASE)=/.test(value))
    .map(([, value]) => value.replace(/^\w+=/, ''))
  const [, version, debian] = /^node:(\d+)-(\w+)$/.exec(build ?? '') ?? []
  t.match(version, /^\d+$/)
  t.equal(endOfSupport(version), null)
  t.equal(debian, 'trixie')
  t.equal(image, 'debian:trixie-slim')
})

t.test('the image has no key, is not root, and puts data into a volume', async (t) => {
  t.match(last('RUN'), /rm -rf .*\/etc\/pipectl\/sealing\.key$/)
  t.equal(last('USER'), 'pipectl')
  t.equal(last('VOLUME'), '/var/lib/pipectl')
})

t.test('its health check follows /v1/ready', async (t) => {
  const [node, ...args] = JSON.parse(last('HEALTHCHECK').replace(/^.*? CMD /, '')) as string[]
  t.equal(node, '/usr/lib/pipectl/node')
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const check = async () => {
    const here = args.map((arg) => arg.replace('http://127.0.0.1:8080', sink.url))
    return (await once(spawn(process.execPath, here, { stdio: 'ignore' }), 'exit'))[0]
  }
  t.equal(await check(), 0)
  t.equal(sink.deliveries[0]?.path, '/v1/ready')
  sink.respondWith(() => ({ status: 503 }))
  t.equal(await check(), 1)
  await sink.halt()
  t.equal(await check(), 1)
})

t.test(
  'compose.yaml gives the key as the secret that the image reads, and nothing to other machines',
  async (t) => {
    const compose = parse(read('compose.yaml'))
    const { pipectl } = compose.services
    const [secret] = pipectl.secrets
    t.equal(compose.secrets[secret].file, './sealing.key')
    t.match(last('ENV'), `PIPECTL_SECRETS_KEY_FILE=/run/secrets/${secret}`)
    t.same(pipectl.ports, ['127.0.0.1:8080:8080'])
    t.same(pipectl.volumes, ['data:/var/lib/pipectl'])
    t.same(Object.keys(compose.volumes), ['data'])
    t.same(pipectl.cap_drop, ['ALL'])
    t.equal(pipectl.read_only, true)
  },
)
