"""Options of a JVM that lives for seconds or minutes: it never earns back its second compiler."""

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
