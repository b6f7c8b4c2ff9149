/** The egress policy's word on a destination that is about to be saved. Apart from the drivers, which main never loads. */
import type { DestinationType } from '../contract/destination.ts'
import type { EgressPolicy } from './driver.ts'
import { checkTargetHost, checkTargetUrl } from './egress.ts'

type Config = Readonly<Record<string, unknown>>

/** For saving a destination: why the egress policy refuses its address, as far as its spelling tells, or null. */
export function targetRefusal(type: DestinationType, config: Config, policy: EgressPolicy): string | null {
  switch (type) {
    case 'destination_database':
      return checkTargetHost(String(config.host ?? ''), policy)?.message ?? null
    case 'destination_object_store':
      return config.endpoint ? (checkTargetUrl(String(config.endpoint), policy)?.message ?? null) : null
    case 'destination_http_endpoint':
      return checkTargetUrl(String(config.url ?? ''), policy)?.message ?? null
    case 'destination_pull':
      return null
  }
}
