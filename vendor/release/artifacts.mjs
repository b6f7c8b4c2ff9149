/**
 * What a release consists of, as steps in their order. A step writes into `folder`; a step whose sources are not in the
 * checkout is left out. Each artifact is made by the command that makes it outside of a release, too.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeAptRepository } from './apt-repository.mjs'
import { releaseNotes } from './changelog.mjs'
import { earlierReleases, releasesWith } from './releases.mjs'
import { billOfMaterials } from './sbom.mjs'
import { signDetached, verifyRelease, writeChecksums, writePublicKey } from './signatures.mjs'

const root = path.resolve(import.meta.dirname, '../..')

/**
 * `release`: `{ version, section, sourceDate, architectures, compressionLevel, signer }`; `section` is that of the changelog,
 * `signer` null for a rehearsal without signatures.
 */
export function stepsOf(release) {
  return [
    { title: 'npm package', make: (folder) => makeTarball(release, folder) },
    ...release.architectures.map((architecture) => ({
      title: `Debian package for ${architecture}`,
      make: (folder) => makeDeb(release, architecture, folder),
    })),
    ...sdkSteps(release),
    { title: 'install script and OpenAPI document', make: copyFiles },
    { title: 'bill of materials', make: (folder) => writeBill(release, folder) },
    { title: 'release notes and releases.json', make: (folder) => writeNotes(release, folder) },
    { title: 'repository for apt', make: (folder) => makeRepository(release, folder) },
    { title: 'checksums', make: (folder) => writeChecksums(folder, flatFiles(folder)) },
    ...(release.signer === null ? [] : signingSteps(release.signer)),
  ]
}

function signingSteps(signer) {
  return [
    { title: 'signature', make: (folder) => signFolder(signer, folder) },
    { title: 'verification with the public key alone', make: (folder) => verifyRelease(folder) },
  ]
}

/** Every file of the folder itself. apt/ has checksums of its own. */
function flatFiles(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
}

function makeTarball(release, folder) {
  // Debian's names, as in process.arch.
  const processors = release.architectures.map((one) => (one === 'amd64' ? 'x64' : one)).join(',')
  const script = path.join(root, 'vendor/make-package.mjs')
  run(release, process.execPath, [script, folder, '--arch', processors])
}

function makeDeb(release, architecture, folder) {
  const options = [
    '--arch',
    architecture,
    '--compression-level',
    release.compressionLevel,
    '--directory',
    folder,
  ]
  run(release, process.execPath, [path.join(root, 'vendor/debian/make-deb.mjs'), ...options])
}

function sdkSteps(release) {
  const steps = [
    { sources: 'sdk/js', title: 'SDK for JavaScript', make: (folder) => packJavaScript(release, folder) },
    { sources: 'sdk/python', title: 'SDK for Python', make: (folder) => packPython(release, folder) },
  ]
  return steps.filter(({ sources }) => existsSync(path.join(root, sources)))
}

function packJavaScript(release, folder) {
  const cwd = path.join(root, 'sdk/js')
  run(release, 'npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], { cwd })
}

function packPython(release, folder) {
  run(release, 'python3', [path.join(root, 'sdk/python/build_backend.py'), folder])
}

function copyFiles(folder) {
  const files = ['vendor/install.sh', 'openapi/management-v1.openapi.yaml']
  for (const file of files.filter((one) => existsSync(path.join(root, one))))
    copyFileSync(path.join(root, file), path.join(folder, path.basename(file)))
}

function writeBill({ version, sourceDate }, folder) {
  const bill = billOfMaterials({ version, licenses: licensesIn(folder), sourceDate })
  writeFileSync(path.join(folder, `pipectl-${version}.cdx.json`), bill)
}

/** THIRD-PARTY-LICENSES of each artifact that has one. They differ: a package contains the bindings of its platform. */
export function licensesIn(folder) {
  const readText = (script) => (name) =>
    execFileSync('sh', ['-ec', script, 'sh', path.join(folder, name)], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    })
  const names = flatFiles(folder).filter((name) => name.startsWith('pipectl'))
  return [
    ...names.filter((name) => /^pipectl-\d.*\.tgz$/.test(name)).map(readText(inTarball)),
    ...names.filter((name) => name.endsWith('.deb')).map(readText(inDeb)),
  ]
}

const inTarball = 'tar -xzOf "$1" package/THIRD-PARTY-LICENSES'
const inDeb =
  'dpkg-deb --fsys-tarfile "$1" | tar -xO ./usr/share/doc/pipectl/THIRD-PARTY-LICENSES.gz | gzip --decompress'

async function writeNotes({ section }, folder) {
  writeFileSync(path.join(folder, 'release-notes.md'), releaseNotes(section))
  const built = (name) => import(path.join(root, 'dist', name))
  const { newestFormat, oldestFormat } = await built('metadata/migrations.js')
  const { segmentFormat } = await built('log/segments/segment-file.js')
  const formats = { opens: { oldest: oldestFormat, newest: newestFormat }, logFormat: segmentFormat }
  const list = releasesWith(section, formats, earlierReleases())
  writeFileSync(path.join(folder, 'releases.json'), `${JSON.stringify(list, null, 2)}\n`)
}

function makeRepository({ sourceDate, signer }, folder) {
  const debs = flatFiles(folder).filter((name) => name.endsWith('.deb'))
  const files = debs.map((name) => path.join(folder, name))
  makeAptRepository(path.join(folder, 'apt'), { debs: files, sourceDate, signer })
}

function signFolder(signer, folder) {
  signDetached(signer, path.join(folder, 'SHA256SUMS'))
  writePublicKey(signer, path.join(folder, 'pipectl-release-key.asc'))
}

/** Every tool that writes times takes them from SOURCE_DATE_EPOCH. */
function run({ sourceDate }, command, args, { cwd = root } = {}) {
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(sourceDate) }
  try {
    execFileSync(command, args, {
      cwd,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 1 << 26,
    })
  } catch (error) {
    throw new Error(
      `${path.basename(args[0] ?? command)} failed: ${String(error.stderr).trim().slice(-2000)}`,
    )
  }
}
