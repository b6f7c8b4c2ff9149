/**
 * Fills a folder with the program as it is installed: what `npm run package` packs, and what other packages take.
 *
 *   bin, dist           the program, bundled (bundle-program.mjs), the dashboard and the scanner
 *   node_modules        packages with a native part: better-sqlite3, and the loader of uWebSockets with one binding, if any
 *   config, systemd, monitoring, examples, docs, openapi, dist/man (the man page)
 *
 * npm would rebuild native packages while it installs: they are without their sources and install steps, so that it works
 * offline. They contain one native file for each target, a processor and a version of Node.js, of which the right one is loaded:
 *
 *   better-sqlite3/lib/binding/node-v137-linux-x64/better_sqlite3.node     where `bindings` looks for it
 *   @btc-vision/uwebsockets.js/uws_linux_x64_137.node                      the loader knows the name
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { bundleProgram } from './bundle-program.mjs'
import { thirdPartyLicenses } from './third-party-licenses.mjs'

const root = path.resolve(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const items = [
  ...['bin', 'config', 'systemd', 'monitoring', 'examples', 'docs', 'openapi', 'dist/man'],
  ...['LICENSE', 'README.md', 'CHANGELOG.md'],
]
/**
 * The binding of uWebSockets by ABI of Node.js. For Node.js 20 it is the one that loads on an older C library too, and that
 * all tests run on; for Node.js 24 there is only one.
 */
const bindings = {
  137: { name: '@btc-vision/uwebsockets.js', folder: '' },
  115: { name: '@trufflesuite/uws-js-unofficial', folder: 'binaries' },
}
const sqlite = [
  { name: 'better-sqlite3', files: ['lib'], needs: ['bindings'] },
  { name: 'bindings', files: ['bindings.js'], needs: ['file-uri-to-path'] },
  { name: 'file-uri-to-path', files: ['index.js'], needs: [] },
]

/**
 * `stage` is an empty folder; `npm run build` has run. `targets` are of Linux: `arch` as in process.arch, `abi` as in
 * process.versions.modules, and `addon`, the file of better-sqlite3 for them.
 */
export async function stagePackage(stage, targets) {
  for (const item of items) copy(item, stage)
  const { assets, modules } = await bundleProgram(stage)
  for (const asset of assets) copy(asset, stage)

  copy('vendor/uwebsockets.js', stage, 'node_modules/uWebSockets.js')
  const native = [...sqlite, ...bindingPackages(targets)]
  const dependencies = native.map((one) => copyPackage(one, stage))
  dependencies.push(['uWebSockets.js', manifestOf('vendor/uwebsockets.js').version])
  for (const { arch, abi, addon } of targets) {
    const place = `node_modules/better-sqlite3/lib/binding/node-v${abi}-linux-${arch}`
    cpSync(addon, path.join(stage, place, 'better_sqlite3.node'))
  }
  writeManifest(stage, Object.fromEntries(dependencies))

  // The scanner contains a few functions of AssemblyScript.
  const packaged = [...native.map(({ name }) => name), 'assemblyscript'].map((name) => `node_modules/${name}`)
  const licenses = thirdPartyLicenses([...modules, ...packaged, ...dashboardPackages()])
  writeFileSync(path.join(stage, 'THIRD-PARTY-LICENSES'), licenses)
}

function bindingPackages(targets) {
  const filesOf = new Map()
  for (const { arch, abi } of targets) {
    const { name, folder } = bindings[abi]
    const file = path.join(folder, `uws_linux_${arch}_${abi}.node`)
    filesOf.set(name, [...(filesOf.get(name) ?? []), file])
  }
  return [...filesOf].map(([name, files]) => ({ name, files, needs: [] }))
}

function copy(from, stage, to = from) {
  cpSync(path.join(root, from), path.join(stage, to), { recursive: true, dereference: true })
}

/**
 * npm runs an install script, or node-gyp where it sees binding.gyp, and asks a registry for what is missing: nothing of
 * this is left. Returns the entry of the package's own manifest.
 */
function copyPackage({ name, files, needs }, stage) {
  const folder = path.join('node_modules', name)
  const { version, license, main } = manifestOf(folder)
  for (const file of [...files, ...licenseFiles(folder)]) copy(path.join(folder, file), stage)
  const dependencies = Object.fromEntries(
    needs.map((one) => [one, manifestOf(`node_modules/${one}`).version]),
  )
  writeJson(path.join(stage, folder, 'package.json'), { name, version, license, main, dependencies })
  return [name, version]
}

function licenseFiles(folder) {
  return readdirSync(path.join(root, folder)).filter((file) => /^(licen[cs]e|notice)/i.test(file))
}

/** As its build noted them. */
function dashboardPackages() {
  return JSON.parse(readFileSync(path.join(root, 'dist', 'dashboard-modules.json'), 'utf8'))
}

/**
 * Without `os` and `cpu`: npm would reject the package elsewhere, where the commands for a daemon on another machine work.
 * The start of a daemon explains what is missing (src/platform/sqlite-addon.ts).
 */
function writeManifest(stage, dependencies) {
  const { name, version, description, license, type, engines, bin } = manifest
  writeJson(path.join(stage, 'package.json'), {
    ...{ name, version, description, license, type, engines, bin, dependencies },
    bundleDependencies: Object.keys(dependencies),
  })
}

function manifestOf(folder) {
  return JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8'))
}

function writeJson(file, value) {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)
}
