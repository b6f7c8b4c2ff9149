/**
 * A repository for apt, ready to be published as static files:
 *
 *   pool/main/p/pipectl/*.deb
 *   dists/stable/main/binary-ARCH/Packages, Packages.gz     what the pool has, with checksums (dpkg-scanpackages)
 *   dists/stable/Release                                     the checksums of these
 *   dists/stable/InRelease, Release.gpg                      the same, signed: what apt trusts
 *
 * Its time is `sourceDate`. It has no date of expiry: a publisher who keeps the key offline cannot renew one.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { signClear, signDetached } from './signatures.mjs'

const pool = 'pool/main/p/pipectl'
const dist = 'dists/stable'

/** `debs`: files named `pipectl_VERSION_ARCH.deb`. Without a `signer` it is not signed, and apt does not accept it. */
export function makeAptRepository(folder, { debs, sourceDate, signer }) {
  mkdirSync(path.join(folder, pool), { recursive: true })
  for (const deb of debs) copyFileSync(deb, path.join(folder, pool, path.basename(deb)))
  const architectures = [...new Set(debs.map((deb) => path.basename(deb, '.deb').split('_')[2]))].sort()
  const indexes = architectures.flatMap((architecture) => writeIndex(folder, architecture))
  const release = path.join(folder, dist, 'Release')
  writeFileSync(release, releaseFile({ architectures, indexes, sourceDate }))
  if (signer === null) return
  signClear(signer, release, path.join(folder, dist, 'InRelease'))
  signDetached(signer, release, `${release}.gpg`)
}

/** Returns the names of the files below dists/stable, with their content. */
function writeIndex(folder, architecture) {
  const options = { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'pipe'] }
  const packages = execFileSync(
    'dpkg-scanpackages',
    ['--multiversion', '--arch', architecture, 'pool'],
    options,
  )
  const name = `main/binary-${architecture}/Packages`
  mkdirSync(path.join(folder, dist, path.dirname(name)), { recursive: true })
  const files = [
    { name, content: Buffer.from(packages) },
    { name: `${name}.gz`, content: gzipSync(packages, { level: 9 }) },
  ]
  for (const file of files) writeFileSync(path.join(folder, dist, file.name), file.content)
  return files
}

function releaseFile({ architectures, indexes, sourceDate }) {
  const checksums = indexes.map(({ name, content }) => {
    const sha256 = createHash('sha256').update(content).digest('hex')
    return ` ${sha256} ${content.length} ${name}`
  })
  const lines = [
    ...['Origin: pipectl', 'Label: pipectl', 'Suite: stable', 'Codename: stable', 'Components: main'],
    `Architectures: ${architectures.join(' ')}`,
    `Date: ${new Date(sourceDate * 1000).toUTCString().replace('GMT', 'UTC')}`,
    'Description: Packages of pipectl',
    ...['SHA256:', ...checksums],
  ]
  return `${lines.join('\n')}\n`
}
