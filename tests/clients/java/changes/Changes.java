import java.io.*;
import java.util.*;
import java.util.concurrent.atomic.*;

/**
 * A Java library at work while its cluster changes; see ../../changes.md. What differs between libraries and their
 * versions stands in Library, of which there is one in each folder.
 */
public class Changes {
    static final int LOOPS = 3, TAGS = 12, PAUSE_MS = 20;
    static final String INCREMENT = "return redis.call('INCR', KEYS[1])";

    interface Step {
        void run(int tag) throws Exception;
    }

    /** What happened since the last phase began; shared by all loops. */
    static class Report {
        String phase = "start";
        int done;
        Map<String, Integer> errors = new TreeMap<>();
        List<String> wrong = new ArrayList<>();

        /** Ends the phase, and returns what there is to say of it. */
        synchronized String take(String next) {
            StringJoiner counts = new StringJoiner(", "), found = new StringJoiner(", ");
            errors.forEach((text, count) -> counts.add(quote(text) + ": " + count));
            wrong.forEach(text -> found.add(quote(text)));
            String told = String.format(
                    "{\"phase\": %s, \"done\": %d, \"errors\": {%s}, \"wrong\": [%s]}", quote(phase), done, counts, found);
            phase = next;
            done = 0;
            errors.clear();
            wrong.clear();
            return told;
        }

        synchronized void holds(String what, boolean holds) {
            if (!holds) wrong.add(what);
        }

        synchronized void succeeded() {
            done++;
        }

        synchronized void failed(String name, Exception error) {
            StringBuilder text = new StringBuilder(name);
            for (Throwable cause = error; cause != null; cause = cause.getCause()) text.append(": ").append(cause);
            errors.merge(text.substring(0, Math.min(300, text.length())), 1, Integer::sum);
        }
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') quoted.append('\\');
            quoted.append(c < ' ' ? ' ' : c);
        }
        return quoted.append('"').toString();
    }

    /** One thread that writes keys of its own and reads them again. */
    static class Loop extends Thread {
        final Library library;
        final Report report;
        final String[] tags = new String[TAGS], keys = new String[TAGS];
        final long[] tried = new long[TAGS], written = new long[TAGS], counted = new long[TAGS];
        final AtomicInteger begun = new AtomicInteger(), goodBegunAt = new AtomicInteger();
        volatile boolean isStopping;

        Loop(Library library, Report report, String name, int number) {
            this.library = library;
            this.report = report;
            for (int tag = 0; tag < TAGS; tag++) {
                tags[tag] = "{" + name + ":" + number + ":" + tag + "}";
                keys[tag] = tags[tag] + "v";
            }
        }

        @Override
        public void run() {
            while (!isStopping) {
                int at = begun.incrementAndGet();
                boolean good = true;
                for (int tag = 0; tag < TAGS; tag++) {
                    good &= tries("write", this::write, tag);
                    good &= tries("read", this::read, tag);
                    good &= tries("count", this::count, tag);
                    pause(PAUSE_MS);
                }
                good &= tries("pipeline", this::pipeline, at % TAGS);
                good &= tries("several", this::several, at % TAGS);
                good &= tries("script", this::script, at % TAGS);
                if (good) goodBegunAt.set(at);
            }
        }

        boolean tries(String name, Step step, int tag) {
            try {
                step.run(tag);
                report.succeeded();
                return true;
            } catch (Exception error) {
                report.failed(name, error);
                return false;
            }
        }

        void write(int tag) throws Exception {
            tried[tag]++;
            library.set(keys[tag], "" + tried[tag]);
            written[tag] = tried[tag];
        }

        void read(int tag) throws Exception {
            expectValue(tag, library.get(keys[tag]));
        }

        void expectValue(int tag, String text) {
            long value = text == null ? 0 : Long.parseLong(text);
            String what = "GET " + tags[tag] + ": " + text + ", written " + written[tag] + " to " + tried[tag];
            report.holds(what, written[tag] <= value && value <= tried[tag]);
        }

        void count(int tag) throws Exception {
            expectCount(tag, library.incr(tags[tag] + "c"), 1);
        }

        /** Holds if so many were added just now, with this count; a library that asks again may count twice. */
        void expectCount(int tag, long count, int added) {
            report.holds("INCR " + tags[tag] + ": " + count + " after " + counted[tag], count >= counted[tag] + added);
            counted[tag] += added;
        }

        void pipeline(int ignored) throws Exception {
            List<String> found = library.gets(keys);
            for (int tag = 0; tag < TAGS; tag++) expectValue(tag, found.get(tag));
        }

        void several(int tag) throws Exception {
            String a = tags[tag] + "a", b = tags[tag] + "b";
            library.mset(a, "1", b, "2");
            List<String> found = library.mget(a, b, tags[tag] + "none");
            report.holds("MGET " + tags[tag] + ": " + found, found.equals(Arrays.asList("1", "2", null)));
        }

        void script(int tag) throws Exception {
            expectCount(tag, library.eval(INCREMENT, tags[tag] + "c"), 1);
        }

        void checkAll() {
            for (int tag = 0; tag < TAGS; tag++) {
                tries("read", this::read, tag);
                tries("count", at -> {
                    String count = library.get(tags[at] + "c");
                    expectCount(at, count == null ? 0 : Long.parseLong(count), 0);
                }, tag);
            }
        }
    }

    static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Every loop begins a cycle from now on and ends it without an error. */
    static void awaitGoodCycles(List<Loop> loops) {
        for (Loop loop : loops) {
            int begun = loop.begun.get();
            while (loop.goodBegunAt.get() <= begun) pause(10);
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 0; at + 1 < args.length; at += 2) options.put(args[at], args[at + 1]);
        Library library = new Library(options.get("--nodes").split(","));
        Report report = new Report();
        List<Loop> loops = new ArrayList<>();
        for (int number = 0; number < LOOPS; number++) {
            loops.add(new Loop(library, report, options.get("--name"), number));
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        report.take(input.readLine());
        loops.forEach(Thread::start);
        for (String line = input.readLine(); line != null && !line.equals("stop"); line = input.readLine()) {
            if (line.equals("cycle")) {
                awaitGoodCycles(loops);
                System.out.println("cycle");
            } else {
                System.out.println(report.take(line));
            }
        }
        for (Loop loop : loops) loop.isStopping = true;
        for (Loop loop : loops) loop.join();
        System.out.println(report.take("end"));
        loops.forEach(Loop::checkAll);
        System.out.println(report.take(""));
        System.exit(0);
    }
}
