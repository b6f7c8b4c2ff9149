/** Metrics of each listener's certificate: its expiry, and whether a new one failed to load. */
import { Gauge, type Registry } from 'prom-client'

export interface CertificateSource {
  readonly listener: string
  readonly current: { expiresMs: number }
  readonly rejection: string | null
}

export function registerCertificates(registry: Registry, certificates: readonly CertificateSource[]): void {
  const labelNames = ['listener']
  new Gauge({
    name: 'pipectl_tls_certificate_expiry_seconds',
    help: 'Expiry of the served certificate, as Unix time. None without TLS.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { listener, current } of certificates) this.set({ listener }, current.expiresMs / 1000)
    },
  })
  new Gauge({
    name: 'pipectl_tls_certificate_rejected',
    help: '1: the files contain an unusable certificate, and the previous one is served.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { listener, rejection } of certificates) this.set({ listener }, rejection === null ? 0 : 1)
    },
  })
}
