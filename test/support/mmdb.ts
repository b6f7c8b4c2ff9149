/**
 * A small writer of MMDB files (the MaxMind DB format, version 2.0), for tests: city-level records for documentation
 * ranges. Nothing is shared or compressed; records are 24 bits.
 *
 *   search tree: nodes of two 24-bit records │ 16 zero bytes │ data │ marker, metadata map
 *
 * A record below the node count is a node, equal to it is "nothing", above it points into the data.
 */
import ipaddr from 'ipaddr.js'

export interface MmdbOptions {
  ipVersion: 4 | 6
  databaseType?: string
  /** Network in CIDR form → its record. IPv4 networks lie in ::/96 of an IPv6 tree. */
  networks: Record<string, MmdbValue>
}

export type MmdbValue = string | number | boolean | MmdbValue[] | { [key: string]: MmdbValue }

/** A child: the index of a node, an offset into the data, or nothing. */
type Child = { node: number } | { data: number } | null

export function writeMmdb({ ipVersion, databaseType = 'Test-City', networks }: MmdbOptions): Buffer {
  const nodes: [Child, Child][] = [[null, null]]
  const data: Buffer[] = []
  let dataBytes = 0
  for (const [network, value] of Object.entries(networks)) {
    insert(nodes, prefixOf(network, ipVersion), { data: dataBytes })
    const encoded = encode(value)
    data.push(encoded)
    dataBytes += encoded.length
  }
  const metadata = encode({
    node_count: uint(nodes.length),
    record_size: uint(24),
    ip_version: uint(ipVersion),
    database_type: databaseType,
    languages: ['en'],
    binary_format_major_version: uint(2),
    binary_format_minor_version: uint(0),
    build_epoch: uint(1_767_225_600),
    description: { en: 'written by a test' },
  })
  return Buffer.concat([
    writeTree(nodes),
    Buffer.alloc(16),
    ...data,
    Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1'),
    metadata,
  ])
}

/** The network's bits, first bit first. */
function prefixOf(network: string, ipVersion: 4 | 6): number[] {
  const [address, length] = ipaddr.parseCIDR(network)
  const isMapped = ipVersion === 6 && address.kind() === 'ipv4'
  const bytes = isMapped
    ? [...new Array<number>(12).fill(0), ...address.toByteArray()]
    : address.toByteArray()
  const bits = bytes.flatMap((byte) => [7, 6, 5, 4, 3, 2, 1, 0].map((bit) => (byte >> bit) & 1))
  return bits.slice(0, isMapped ? length + 96 : length)
}

function insert(nodes: [Child, Child][], prefix: readonly number[], leaf: Child): void {
  let at = 0
  prefix.forEach((bit, index) => {
    const node = nodes[at]!
    if (index === prefix.length - 1) {
      node[bit] = leaf
      return
    }
    let child = node[bit] ?? null
    if (child === null || !('node' in child)) {
      child = { node: nodes.length }
      nodes.push([null, null])
      node[bit] = child
    }
    at = child.node
  })
}

function writeTree(nodes: readonly [Child, Child][]): Buffer {
  const tree = Buffer.alloc(nodes.length * 6)
  nodes.forEach((children, index) => {
    children.forEach((child, side) => {
      const value =
        child === null ? nodes.length : 'node' in child ? child.node : nodes.length + 16 + child.data
      tree.writeUIntBE(value, index * 6 + side * 3, 3)
    })
  })
  return tree
}

const types = { string: 2, double: 3, uint32: 6, map: 7, array: 11, boolean: 14 }

/** Metadata's counts are unsigned integers; numbers in records are doubles, unless made by `uint`. */
export function uint(value: number): MmdbValue {
  return { '\0uint32': value }
}

function encode(value: MmdbValue): Buffer {
  if (typeof value === 'string') {
    const text = Buffer.from(value)
    return Buffer.concat([control(types.string, text.length), text])
  }
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(8)
    bytes.writeDoubleBE(value)
    return Buffer.concat([control(types.double, 8), bytes])
  }
  if (typeof value === 'boolean') return control(types.boolean, value ? 1 : 0)
  if (Array.isArray(value)) return Buffer.concat([control(types.array, value.length), ...value.map(encode)])
  const integer = value['\0uint32']
  if (typeof integer === 'number') {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(integer)
    return Buffer.concat([control(types.uint32, 4), bytes])
  }
  const members = Object.entries(value)
  return Buffer.concat([
    control(types.map, members.length),
    ...members.flatMap(([key, member]) => [encode(key), encode(member)]),
  ])
}

/** Type and size; types above 7 have a byte of their own, sizes from 29 on one more. */
function control(type: number, size: number): Buffer {
  const extended = type > 7 ? [type - 7] : []
  const head = (type > 7 ? 0 : type) << 5
  if (size < 29) return Buffer.from([head | size, ...extended])
  return Buffer.from([head | 29, ...extended, size - 29])
}

/** A record as a city database has them. */
export function cityRecord(city: {
  country?: string
  region?: string
  city?: string
  postal?: string
  latitude?: number
  longitude?: number
  accuracyRadiusKm?: number
}): MmdbValue {
  const record: { [key: string]: MmdbValue } = {}
  if (city.country) record.country = { iso_code: city.country }
  if (city.region) record.subdivisions = [{ iso_code: 'XX', names: { en: city.region } }]
  if (city.city) record.city = { names: { en: city.city } }
  if (city.postal) record.postal = { code: city.postal }
  const location: { [key: string]: MmdbValue } = {}
  if (city.latitude !== undefined) location.latitude = city.latitude
  if (city.longitude !== undefined) location.longitude = city.longitude
  if (city.accuracyRadiusKm !== undefined) location.accuracy_radius = uint(city.accuracyRadiusKm)
  if (Object.keys(location).length > 0) record.location = location
  return record
}
