/**
 * `npm run package`: a tarball that `npm install -g` takes offline, for this platform and Node.js ABI.
 *
 * npm ignores `overrides` in an installed package and would rebuild native ones, so the tarball bundles everything:
 * the production dependencies as they are installed here, the loader of uWebSockets as a real folder with the one
 * binding that loads, if any, and better-sqlite3 as it was built, without its sources and its install step.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const bindings = ['@btc-vision/uwebsockets.js', '@trufflesuite/uws-js-unofficial']
const platform = `${process.platform}_${process.arch}_${process.versions.modules}`

const stage = mkdtempSync(path.join(os.tmpdir(), 'pipectl-package-'))
try {
  say('1/4 copying the program')
  for (const item of [
    'bin',
    'dist',
    'config',
    'systemd',
    'monitoring',
    'examples',
    'openapi',
    'LICENSE',
    'README.md',
    'CHANGELOG.md',
  ]) {
    cpSync(path.join(root, item), path.join(stage, item), { recursive: true })
  }
  say('2/4 collecting production dependencies')
  copyDependencies()
  say('3/4 keeping one uWebSockets binding and the built better-sqlite3')
  keepOneBinding()
  stripBuildStep('better-sqlite3', ['src', 'deps', 'binding.gyp'])
  for (const name of ['bufferutil', 'utf-8-validate']) stripBuildStep(name, ['src', 'deps', 'binding.gyp'])
  writeManifest()
  say('4/4 packing')
  const file = `pipectl-${manifest.version}-${process.platform}-${process.arch}-node${process.versions.node.split('.')[0]}.tgz`
  const packed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts'], {
    cwd: stage,
    encoding: 'utf8',
  }).trim()
  cpSync(path.join(stage, packed.split('\n').pop()), path.join(root, file))
  say(`made ${file}; install it with: npm install -g ./${file}`)
} finally {
  rmSync(stage, { recursive: true, force: true })
}

function say(line) {
  process.stderr.write(`${line}\n`)
}

/** The production tree, as `npm ls` knows it, copied link by link into real folders. */
function copyDependencies() {
  const listed = execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable', '--silent'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  const modules = path.join(root, 'node_modules')
  for (const folder of listed.split('\n').filter((line) => line.startsWith(`${modules}${path.sep}`))) {
    const target = path.join(stage, 'node_modules', path.relative(modules, folder))
    cpSync(folder, target, { recursive: true, dereference: true, filter: (from) => !nested(folder, from) })
  }
  cpSync(path.join(root, 'vendor', 'uwebsockets.js'), path.join(stage, 'node_modules', 'uWebSockets.js'), {
    recursive: true,
  })
}

/** Nested dependencies are listed on their own. */
function nested(folder, from) {
  return path.relative(folder, from).split(path.sep)[0] === 'node_modules'
}

function keepOneBinding() {
  const require = createRequire(path.join(root, 'package.json'))
  let kept = null
  for (const name of bindings) {
    const folder = path.join(stage, 'node_modules', name)
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    const wanted = files.find((file) => file.endsWith(`uws_${platform}.node`))
    if (kept === null && wanted !== undefined && loads(require, path.join(folder, wanted))) {
      kept = name
      for (const file of files.filter((one) => one.endsWith('.node') && one !== wanted))
        rmSync(path.join(folder, file))
      rmSync(path.join(folder, 'docs'), { recursive: true, force: true })
    } else rmSync(folder, { recursive: true, force: true })
  }
  if (kept === null) say(`no uWebSockets binding loads on ${platform}: the package will serve over node:http`)
}

function loads(require, file) {
  try {
    require(file)
    return true
  } catch {
    return false
  }
}

/** npm runs an install script, or node-gyp where it sees binding.gyp: neither must happen offline. */
function stripBuildStep(name, sources) {
  const folder = path.join(stage, 'node_modules', name)
  if (!existsSync(folder)) return
  for (const source of sources) rmSync(path.join(folder, source), { recursive: true, force: true })
  const file = path.join(folder, 'package.json')
  const own = JSON.parse(readFileSync(file, 'utf8'))
  delete own.scripts
  delete own.gypfile
  // It lists the sources to publish; npm pack would leave out what was built.
  delete own.files
  writeFileSync(file, JSON.stringify(own, null, 2))
}

function writeManifest() {
  const dependencies = { ...manifest.dependencies }
  for (const name of bindings) {
    if (!existsSync(path.join(stage, 'node_modules', name))) delete dependencies[name]
  }
  dependencies['uWebSockets.js'] = JSON.parse(
    readFileSync(path.join(root, 'vendor', 'uwebsockets.js', 'package.json'), 'utf8'),
  ).version
  const { name, version, description, license, type, engines, bin } = manifest
  const packaged = {
    name,
    version,
    description,
    license,
    type,
    engines,
    bin,
    os: [process.platform],
    cpu: [process.arch],
  }
  const text = JSON.stringify(
    { ...packaged, dependencies, bundleDependencies: Object.keys(dependencies) },
    null,
    2,
  )
  writeFileSync(path.join(stage, 'package.json'), `${text}\n`)
}
