/**
 * `npm run package`: a tarball that `npm install -g` takes offline, for this platform and Node.js ABI.
 *
 *   node vendor/make-package.mjs [FOLDER]     leaves it there instead of in the checkout
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { compileSqlite } from './compile-sqlite.mjs'
import { stagePackage } from './stage-package.mjs'

const root = path.resolve(import.meta.dirname, '..')
const target = path.resolve(process.argv[2] ?? root)
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

compileSqlite()
const stage = mkdtempSync(path.join(os.tmpdir(), 'pipectl-package-'))
try {
  say('1/2 collecting the program and its dependencies')
  await stagePackage(stage)
  say('2/2 packing')
  const file = `pipectl-${version}-${process.platform}-${process.arch}-node${process.versions.node.split('.')[0]}.tgz`
  const packed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts'], {
    cwd: stage,
    encoding: 'utf8',
  }).trim()
  cpSync(path.join(stage, packed.split('\n').pop()), path.join(target, file))
  say(`made ${file}; install it with: npm install -g ${path.join(target, file)}`)
} finally {
  rmSync(stage, { recursive: true, force: true })
}

function say(line) {
  process.stderr.write(`${line}\n`)
}
