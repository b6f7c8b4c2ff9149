/**
 * The image of `Dockerfile`, built and run by podman with the restrictions of compose.yaml: it accepts a record, stops in
 * order, and another container reads the record from the volume. Its base is a Debian from debootstrap: there is no registry.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { buildDeb } from '../support/deb.ts'
import { bootstrapped } from '../support/debian-root.ts'
import { inThisMachine, startPodman } from '../support/podman.ts'
import { until } from '../support/until.ts'

const project = new URL('../../', import.meta.url).pathname
const base = 'localhost/debian:trixie'
const image = 'localhost/pipectl'
const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-image-'))
const podman = startPodman(t)
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const deb = buildDeb(folder)
const { pipectl: service } = parse(readFileSync(path.join(project, 'compose.yaml'), 'utf8')).services

/** The options of `podman run` for what compose.yaml says. */
function restrictions(): string[] {
  const key = path.join(folder, 'sealing.key')
  return [
    ...(service.read_only ? ['--read-only'] : []),
    ...service.tmpfs.map((one: string) => `--tmpfs=${one}`),
    ...service.cap_drop.map((one: string) => `--cap-drop=${one}`),
    ...service.security_opt.map((one: string) => `--security-opt=${one}`),
    ...service.volumes.map((one: string) => `--volume=${one}`),
    ...service.secrets.map((one: string) => `--volume=${key}:/run/secrets/${one}:ro`),
  ]
}

/** Starts a container and resolves when its health check succeeds. */
async function serve(name: string): Promise<void> {
  await podman.run(['run', '--detach', '--name', name, ...inThisMachine, ...restrictions(), image])
  await until(
    'the health check of the image succeeds',
    () => podman.exitCode(['healthcheck', 'run', name]) === 0,
  )
}

const exec = (name: string, command: readonly string[], input = '') =>
  podman.run(['exec', '--interactive', name, ...command], input)

t.test('it is built from the Dockerfile, with a Debian package that exists', async (t) => {
  const tar = spawn('tar', ['-C', bootstrapped('trixie'), '-cf', path.join(folder, 'debian.tar'), '.'])
  t.same(await once(tar, 'exit'), [0, null])
  await podman.run(['import', path.join(folder, 'debian.tar'), base])
  rmSync(path.join(folder, 'debian.tar'))
  cpSync(path.join(project, 'Dockerfile'), path.join(folder, 'Dockerfile'))
  const args = { BUILDER: base, BASE: base, PACKAGE: path.basename(deb) }
  await podman.run([
    ...[
      'build',
      '--isolation',
      'chroot',
      '--network',
      'host',
      '--pull=never',
      '--layers=false',
      '--format',
      'docker',
    ],
    ...Object.entries(args).map(([name, value]) => `--build-arg=${name}=${value}`),
    ...['--tag', image, folder],
  ])
  const [{ Config: config }] = JSON.parse(await podman.run(['image', 'inspect', image]))
  t.match(config, { User: 'pipectl', Entrypoint: ['/usr/bin/pipectl'], Cmd: ['serve', '--init'] })
  t.same(config.Volumes, { '/var/lib/pipectl': {} })
})

t.test('without the sealing key it does not start: exit code 78', async (t) => {
  const options = restrictions().filter((one) => !one.includes('/run/secrets/'))
  t.equal(podman.exitCode(['run', '--rm', ...inThisMachine, ...options, image]), 78)
})

t.test('it accepts a record, as a user without rights, and stops in order', async (t) => {
  writeFileSync(path.join(folder, 'sealing.key'), `${Buffer.alloc(32, 7).toString('base64')}\n`, {
    mode: 0o600,
  })
  chownSync(path.join(folder, 'sealing.key'), 990, 990)
  await serve('first')
  t.match(await exec('first', ['id']), /^uid=990\(pipectl\) gid=990\(pipectl\)/)
  t.equal(podman.exitCode(['exec', 'first', 'touch', '/etc/pipectl/x']), 1, 'its files are read-only')
  t.equal(
    podman.exitCode(['exec', 'first', 'test', '-e', '/etc/pipectl/sealing.key']),
    1,
    'no key in the image',
  )
  const key = (await exec('first', ['cat', '/var/lib/pipectl/first-key'])).trim()
  const pipectl = (...args: string[]) => ['env', `PIPECTL_API_KEY=${key}`, 'HOME=/tmp', 'pipectl', ...args]
  await exec('first', pipectl('pipes', 'create', 'events'))
  await exec('first', pipectl('destinations', 'create', 'events', '--type', 'pull'))
  await exec('first', pipectl('ingest', 'events'), '{"id": 1, "price": 1.10}\n')
  await podman.run(['stop', '--time', '75', 'first'])
  const [{ State: state }] = JSON.parse(await podman.run(['container', 'inspect', 'first']))
  t.match(state, { Status: 'exited', ExitCode: 0 })
  await podman.run(['rm', 'first'])

  await serve('second')
  t.match(await exec('second', pipectl('pull', 'events/pull', '--once')), '{"id": 1, "price": 1.10,')
  await podman.run(['stop', '--time', '75', 'second'])
})
