/**
 * Fills a folder with the program as it is installed: what `npm run package` packs, and what other packages take.
 *
 * npm ignores `overrides` in an installed package and would rebuild native ones, so the folder holds everything:
 * the production dependencies as they are installed here, the loader of uWebSockets as a real folder with the one
 * binding that loads, if any, and better-sqlite3 as it was built, without its sources and its install step.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const bindings = ['@btc-vision/uwebsockets.js', '@trufflesuite/uws-js-unofficial']
const platform = `${process.platform}_${process.arch}_${process.versions.modules}`
const items = [
  ...['bin', 'dist', 'config', 'systemd', 'monitoring', 'examples', 'docs', 'openapi'],
  ...['LICENSE', 'README.md', 'CHANGELOG.md'],
]

/** `stage` is an empty folder; `npm run build` has run. */
export async function stagePackage(stage) {
  for (const item of items) cpSync(path.join(root, item), path.join(stage, item), { recursive: true })
  copyDependencies(stage)
  keepOneBinding(stage)
  for (const name of ['better-sqlite3', 'bufferutil', 'utf-8-validate']) stripBuildStep(stage, name)
  writeManifest(stage)
}

function say(line) {
  process.stderr.write(`${line}\n`)
}

/** The production tree, as `npm ls` knows it, copied link by link into real folders. */
function copyDependencies(stage) {
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

function keepOneBinding(stage) {
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
function stripBuildStep(stage, name) {
  const folder = path.join(stage, 'node_modules', name)
  if (!existsSync(folder)) return
  for (const source of ['src', 'deps', 'binding.gyp'])
    rmSync(path.join(folder, source), { recursive: true, force: true })
  const file = path.join(folder, 'package.json')
  const own = JSON.parse(readFileSync(file, 'utf8'))
  delete own.scripts
  delete own.gypfile
  // It lists the sources to publish; npm pack would leave out what was built.
  delete own.files
  writeFileSync(file, JSON.stringify(own, null, 2))
}

function writeManifest(stage) {
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
