"""Chats for the small storyteller: story requests, follow-ups and small talk.

  chats(r, story, other=None)  -> [(role, text), ...]   a chat that contains the story (other: a second story, for 'another one')
  smalltalk(r, story, other=None) -> [(role, text), ...]   a chat of small talk, mostly without a story
"""
import re

# ---------------------------------------------------------------- small helpers
def spin(r, s):
    """Expands {a|b|c}, innermost first."""
    while True:
        m = re.search(r"\{([^{}]*)\}", s)
        if not m: return s
        s = s[:m.start()] + r.choice(m.group(1).split("|")) + s[m.end():]

def lines(s): return [l.strip() for l in s.strip().split("\n") if l.strip()]
def pick(r, block): return spin(r, r.choice(block))
def cap(s): return s[:1].upper() + s[1:]

DET = {"a", "an", "the", "his", "her", "its", "their", "my", "some", "two", "three", "four", "five", "six", "seven", "many"}
MASS = set("honey bread snow rain kindness friendship courage patience sharing music magic water milk rice flour sand ice gold silver wool soup jam moonlight starlight sunlight sunshine honesty trust love fear time bravery courage soup porridge tea wind weather luck manners baking gardening painting singing sailing fishing autumn winter spring summer bedtime school homework laughter joy greed pride thunder lightning fog dust smoke salt sugar butter cheese paint clay string thread paper darkness light truth helping listening waiting learning reading swimming dancing cooking sleep home".split())
def has_det(np): return np.split()[0].lower() in DET
def an(np): return ("an " if np.lower().startswith("hour") or np[:1].lower() in "aeiou" and not re.match(r"(?i)(uni|use|one\b|eu)", np) else "a ") + np
GERUND = set("being getting learning helping telling moving baking sharing swimming making finding losing growing cleaning saying keeping going".split())
THE = {"moon", "sun", "sea", "dark", "sky", "wind", "moon's lost button", "smallest knight", "first day at school", "night", "north wind", "biggest pumpkin"}
NONE = {"fear of the dark", "advice", "stew"}
def head(np): return re.split(r" (?:of|who|with|that|in|on|from|called|named|about|at|without|to|for|by) ", np)[0].split()[-1].lower()
def plural(np):
    h = head(np)
    return np.split()[0].lower() not in ("a", "an") and ((h.endswith("s") and not h.endswith(("ss", "us", "is", "'s"))) or h in {"mice", "geese", "children", "people", "men", "women"})
def uncounted(np):
    w = np.lower().split()
    return np.lower() in NONE or (len(w) == 1 and w[0] in MASS) or w[-1] in ("jam", "bread", "honey") or (w[0] in GERUND and (len(w) == 1 or np.lower() not in ("swimming lesson", "baking day")))
def bare(np):
    w = np.split()
    return " ".join(w[1:]) if len(w) > 1 and w[0].lower() in ("a", "an", "the", "some") else np
def full(np):
    """With an article where one belongs."""
    if np.lower() in THE: return "the " + np
    if has_det(np) or np[:1].isupper() or plural(np) or uncounted(np): return np
    return an(np)
def the(np):
    w = np.split()
    if np[:1].isupper() or uncounted(np): return np
    if w[0].lower() in ("a", "an", "the", "some"): return "the " + " ".join(w[1:])
    if w[0].lower() in ("his", "her", "its", "their", "my", "many"): return np
    return "the " + np
def join(xs): return (xs[0] if xs else "") if len(xs) < 2 else ", ".join(xs[:-1]) + " and " + xs[-1]

def subjects(r, story, most=3):
    ab = [x for x in story["about"] if x.strip()] or [story["title"]]
    k = min(len(ab), most, r.choice([1, 1, 1, 2, 2, 2, 3]))
    if k == 1: got = [ab[0] if r.random() < .65 or len(ab) < 2 else ab[1] if r.random() < .75 else r.choice(ab)]
    elif r.random() < .7: got = ab[:k]
    else: got = [ab[0]] + r.sample(ab[1:], k - 1); r.shuffle(got)
    return got

def one(r, story):
    """One subject with its article, for an offer."""
    return full(subjects(r, story, 1)[0])

def paras(text): return [p.strip() for p in text.split("\n\n") if p.strip()]
def sentences(p): return [s for s in re.split(r"(?<=[.!?])(?:[\"”’'])?\s+(?=[\"“‘']?[A-Z])", p) if s.strip()] if '"' not in p and "“" not in p else quoted_sentences(p)
def quoted_sentences(p):
    """Sentences of a paragraph with speech in it: a break never falls inside open quotes."""
    out, cur, inq = [], "", False
    for i, ch in enumerate(p):
        cur += ch
        if ch == '"': inq = not inq
        elif ch == "“": inq = True
        elif ch == "”": inq = False
        if ch == " " and not inq and re.search(r"[.!?][\"”]? $", cur) and i + 1 < len(p) and (p[i + 1].isupper() or p[i + 1] in "\"“"):
            out.append(cur.strip()); cur = ""
    return out + ([cur.strip()] if cur.strip() else [])

# ---------------------------------------------------------------- the user's hand: case, punctuation, rare typos
def typo(r, s):
    w = s.split(" "); long = [i for i, x in enumerate(w) if len(x) > 4 and x.isalpha()]
    if not long: return s
    i = r.choice(long); x = w[i]; j = r.randrange(1, len(x) - 2)
    w[i] = r.choice([x[:j] + x[j + 1] + x[j] + x[j + 2:], x[:j] + x[j + 1:], x[:j] + x[j] + x[j:]])
    return " ".join(w)

def hand(r, s, quiet=False):
    """How people type: mostly as written, often lower case or without the full stop."""
    s = whole = s.strip()
    if quiet: return s
    x = r.random()
    if x < .22: s = s.lower().rstrip(".!")
    elif x < .32: s = s.lower()
    elif x < .42: s = s.rstrip(".!")
    elif x < .46: s = s.rstrip(".?!") + "!"
    else: s = cap(s)
    if r.random() < .1: s = s.rstrip("?")
    if r.random() < .025: s = typo(r, s)
    return s.strip() or whole

# ---------------------------------------------------------------- asking for a story
ASK = lines("""
{Tell|Tell|Please tell} me a story about <S>.
Tell me a {short|little|nice|funny|sweet|gentle|good|new|quick} story about <S>.
{Can|Could|Would|Will} you {please |}tell me a {story|tale|short story} about <S>?
{Can|Could} you {write|make up|make} a {story|tale|short story} about <S>?
{Write|Make up|Give me} a {story|tale|short story|little story} about <S>.
Write me a {story|short story} about <S>{|, please}.
I {want|would like|'d like|wish for} a story about <S>{|, please}.
I want to hear {a story|a tale|something} about <S>.
{Do you know|Do you have|Have you got|Is there} {a story|any stories|a tale} about <S>?
{A story|Story|A tale|A short story} about <S>{|, please| please}.
{Something|Something short|Something nice} about <S>{|, please}.
{How about|What about} a story {about|with} <S>?
Tell me a {bedtime|good night} story about <S>.
{Let's|Let us} {hear|have} a story about <S>.
{Tell|Give} me a {story|tale} with <S> in it.
{Can|Could} you tell a story with <S> in it{|, please}?
May I {have|hear} a story about <S>?
{My daughter|My son|My child|My little brother|My little sister|My friend} {wants|would like} a story about <S>.
{Please|Please can you|Please,} tell {us|me} a {tale|fairy tale|story} about <S>.
story about <B>
{story|tale} {please|pls}, about <B>
tell me about <S>
tell a story: <B>
<B> story {please|}
<B>
<S>, please
short story, <B>
{I love|I like} <P>. {Tell me a story.|Do you have a story?|Can I have a story about that?}
A {bedtime|short|little|kind|funny} story about <S>, please!
Make me a story about <S>
Tell us the tale of <S>.
{Once more,|Now|So,|OK,|Hey,|Hi!|Hello!} {tell me|I would like|can you tell me} a story about <S>
{Hi|Hello|Hey}, {could|can} you tell me a story about <S>?
write a story about <B>
Write a {story|tale} in which <S> {appears|plays a part}.
""")
ASK_ANY = lines("""
Tell me a story{|, please}.
{Can|Could|Would|Will} you tell me a {|short |little |nice }story?
{Story|A story|One story|Story time|A tale} please{|!}
story
a story
{Please|Please,} tell {me|us} a {story|tale|little story}.
Tell me a bedtime story{|, please}.
I {need|want|would like} a {|short |bedtime |good |little }story{|, please}.
{Something short|Something nice|Something sweet|Something gentle}, please.
{Write|Make up|Invent} a {|short |little |new }{story|tale}{| for me}.
Do you know {a|any} {story|stories|good stories|tale}?
Tell me {something|anything}.
{I want|I would like} to hear a {story|tale}{|, please}.
{Surprise me|Any story will do|You choose the story|Tell me whichever story you like|Pick a story for me}.
Tell me a {fairy tale|fable|short tale|tale}.
{It is|It's} {bedtime|time for bed|story time}. {A story, please.|Tell me a story.|What story do you have?}
{Let's|Let us} hear a story.
Give me a {|short |nice |good |quick }story{|, please}.
May I have a story?
{Start|Begin} a story.
{Go on, tell|Go ahead and tell} me a story.
tell story
{What story|Which story} can you tell me?
Read me a story{|, please}.
one bedtime story please
A {bedtime|short|new|quick} story, please.
""")
ASK_TITLE = lines("""
{Tell|Tell me|Write|Please write|Please tell me} {a|the} {story|tale} called "<T>".
{Can|Could} you {tell me|write} {a|the} {story|tale} called "<T>"?
Write a {story|short story|tale} {with the title|titled|named} "<T>".
Do you know {the story|the tale|a story called} "<T>"?
"<T>"
<T>
A {story|tale} called <T>{|, please}.
I {want|would like} {to hear|to read} "<T>"{|, please}.
{Tell|Give} me "<T>"{|, please}.
My title is "<T>". {Write the story.|Tell me the story.|Please write it.}
""")
LEAD_S = lines("""
Here is a story about <S>.
{This is|Here comes} a {little |}story about <S>.
{Gladly|Of course|With pleasure|Certainly|Happily}! Here is a story about <S>.
{A story about <S>|One about <S>}? {Gladly|Of course|Let me think|Listen}.
{Listen|Sit down|Make yourself comfortable|Settle in}, and I will tell you about <S>.
{I know one|I have one} about <S>.
""")
LEAD_ANY = lines("""
{Gladly|Of course|With pleasure|Certainly|Happily}! {Here is one.|Here is a story for you.|Listen.}
{Here is one|Here is a story|Here is a little story} for you.
{Sit down|Get comfortable|Settle in} and listen.
Here is one I {like|am fond of}.
This one is called "<T>".
{Let me tell you|I will tell you} the one called "<T>".
""")

def story_text(story, titled=False): return (story["title"] + "\n\n" if titled else "") + story["text"].strip()

def answer(r, story, subs=None, after_yes=False):
    x = r.random()
    if x < .14: return story_text(story, True)
    if x < (.28 if not after_yes else .4):
        lead = pick(r, LEAD_S if subs and r.random() < .7 else LEAD_ANY)
        return lead.replace("<S>", join([full(s) for s in subs or []])).replace("<T>", story["title"]) + "\n\n" + story_text(story)
    return story_text(story)

def request(r, story):
    """(user text, answer)."""
    x = r.random()
    if x < .68:
        subs = subjects(r, story); t = pick(r, ASK)
        if "<P>" in t:  # 'I love foxes' needs a plain plural: only for one countable noun
            p = many(subs[0]); subs = subs[:1]
            if not p: t = "Tell me a story about <S>."
            else: return hand(r, t.replace("<P>", p)), answer(r, story, subs)
        low = r.random()
        named = [full(s) for s in subs]
        if low < .12: named = [bare(s) for s in subs]
        elif low < .18: named = [the(s) for s in subs]
        t = t.replace("<S>", join(named)).replace("<B>", r.choice([join, join, ", ".join, " ".join if len(subs) == 1 else " and ".join])([bare(s) if r.random() < .8 else full(s) for s in subs]))
        return hand(r, t), answer(r, story, subs)
    if x < .82: return hand(r, pick(r, ASK_ANY)), answer(r, story)
    if x < .90:
        t = pick(r, ASK_TITLE).replace("<T>", story["title"])
        return (t if r.random() < .7 else t.lower().rstrip(".")), story_text(story, r.random() < .35)
    return opening(r, story)

IRREG = {"mouse": "mice", "wolf": "wolves", "goose": "geese", "child": "children", "sheep": "sheep", "deer": "deer", "fish": "fish", "thief": "thieves", "elf": "elves", "leaf": "leaves", "loaf": "loaves", "calf": "calves", "fisherman": "fishermen"}
def many(np):
    w = bare(np).split()
    if len(w) != 1 or not full(np).startswith(("a ", "an ")) or head(np) not in ANIMATE: return None
    h = w[0]
    if h in IRREG: return IRREG[h]
    if h.endswith(("s", "x", "ch", "sh")): return h + "es"
    if h.endswith("y") and h[-2] not in "aeiou": return h[:-1] + "ies"
    return h + "s"

def opening(r, story):
    """The user starts, the storyteller goes on."""
    ps = paras(story["text"]); s = sentences(ps[0]); text = story["text"].strip()
    m = re.match(r"(Once upon a time|Long ago|Once|One (?:morning|day|evening|night)|In a [a-z]+ [a-z]+)(,? )", text)
    if m and r.random() < .5:
        start, rest = m.group(1), text[m.end():]
        return r.choice([start, start.lower(), start + "...", start + ",", "Go on: " + start]), cap(rest) if r.random() < .2 else rest
    if len(s) > 1:
        k = 1 if len(s) < 4 or r.random() < .8 else 2
        start = " ".join(s[:k]); rest = " ".join(s[k:]) + ("\n\n" + "\n\n".join(ps[1:]) if len(ps) > 1 else "")
        t = r.choice(["{}", "{}", "Continue this story: {}", "Go on with this story: {}", "{} What comes next?", "My story begins like this: {}", "Please continue: {}", "Finish the story: {}"])
        return t.format(start), rest
    return hand(r, "Once upon a time"), text

# ---------------------------------------------------------------- what the story is about, by rule
VERB = "said|asked|laughed|smiled|nodded|whispered|cried|thought|looked|felt|answered|called|sighed|ran|knew|wanted|decided|shouted|replied|walked|sat|took|had|was|found|saw"
NOTNAME = set("The A An He She It They We You I And But So Then When One Once If In On At Her His Their This That There What Why How Yes No Not Now All Every After Before By For From To Please Thank Thanks Oh Good Dear Well Let Come Mr Mrs Miss Grandmother Grandfather Grandma Grandpa Mother Father Mama Papa Mum Dad Old Little Who Where Which As Even Still Just Soon Next Later Monday Tuesday Wednesday Thursday Friday Saturday Sunday River Hill Wood Lane Street Lake Bay Farm Village Valley Uncle Aunt Captain King Queen Maybe Perhaps Only Until Some My Your Our Sometimes Nobody Everyone Everybody Somebody Each Both Two Three".split())
def names(story):
    t = story["text"]; c = {}
    for m in re.finditer(r"\b([A-Z][a-z]{2,})\b(?: (?:" + VERB + r")\b)", t):
        if m.group(1) not in NOTNAME: c[m.group(1)] = c.get(m.group(1), 0) + 1
    for m in re.finditer(r"\b(?:said|asked|named|called) ([A-Z][a-z]{2,})\b", t):
        if m.group(1) not in NOTNAME: c[m.group(1)] = c.get(m.group(1), 0) + 2
    good = [n for n, k in c.items() if k >= 2 and not re.search(r"\b" + n.lower() + r"\b", t)
            and not re.search(r"(?:Mr|Mrs|Miss|Old|Uncle|Aunt|Captain|King|Queen|River|Mount) " + n + r"\b", t) and not re.search(r"\b(?:village|town|land|city|river|lake|kingdom|island|hill|clock) (?:of |called |named )" + n + r"\b", t)]
    return sorted(good, key=lambda n: t.index(n))[:2]

ANIMATE = set("fox crow mouse cat dog rabbit hare bear wolf owl hedgehog squirrel frog toad duck goose hen rooster cock pig goat sheep lamb cow horse donkey pony deer lion tiger elephant monkey mole badger otter beaver bird sparrow robin wren swan turtle tortoise snail bee ant spider butterfly fish whale seal penguin bat rat hamster kitten puppy duckling chick calf foal raven magpie pigeon dove eagle hawk heron stork swallow crab octopus dolphin camel giraffe zebra hippo snake lizard ladybird beetle cricket grasshopper firefly moth worm girl boy child king queen prince princess farmer baker miller fisherman sailor captain shepherd wizard witch giant dragon fairy elf dwarf gnome ghost robot snowman knight tailor cobbler painter gardener grandmother grandfather teacher mother father sister brother twins friend neighbour woman man blacksmith weaver potter clockmaker lighthouse-keeper keeper musician librarian carpenter postman unicorn mermaid troll star moon cloud piglet gosling fawn cub parrot peacock mermaid inventor astronaut pirate".split())
def heroes(story):
    """Up to two who act in the story, ready to stand as a subject in a sentence."""
    n = names(story)
    if n: return n
    out = []
    for a in story["about"]:
        h = head(a)
        if (h in ANIMATE or h.rstrip("s") in ANIMATE) and a not in out: out.append(a)
    return [the(a) for a in out[:2]]

MORALS = [
 (r"shar(e|ed|ing)|half each|enough for", ["Sharing makes a small thing bigger.", "What we share tastes better than what we keep.", "There is usually enough when we share."]),
 (r"help(ed|ing|s)?\b|kind(ness|ly)?\b", ["A kind deed comes back to you.", "Helping someone is never wasted time.", "Even a small kindness can matter a lot.", "Be kind, for you never know who needs it."]),
 (r"patien|wait(ed|ing)?\b|slow", ["Good things often need a little patience.", "If you can wait, you often see more.", "Slow and careful is sometimes the fastest way."]),
 (r"brave|afraid|scared|frighten|fear|courage", ["Being brave means trying even when you are afraid.", "Things are less scary once you look at them closely.", "Courage can be very small and still be enough."]),
 (r"truth|honest|lied|\blie\b|fib|confess|admit", ["It is best to tell the truth, even when it is hard.", "An honest word is lighter to carry than a lie.", "The truth may be hard to say, but it mends things."]),
 (r"greed|too much|wanted more|all for (him|her|it)self", ["If you want everything, you may end up with nothing.", "Enough is better than too much.", "Greed makes even a full plate look empty."]),
 (r"listen", ["It pays to listen.", "If we listen well, we learn things that shouting hides.", "A good listener hears what others miss."]),
 (r"practi[sc]e|try|tried|again and again|mistake", ["If it goes wrong, try again.", "Nobody gets it right the first time, and that is fine.", "Keep trying, and you will get better bit by bit."]),
 (r"sorry|forgiv|quarrel|argu", ["Saying sorry is the best way to begin again.", "A friendship is worth more than a quarrel.", "It is better to make peace than to be right."]),
 (r"friend|lonely|together", ["Things are easier with a friend beside you.", "A friend can come from where you least expect one.", "Together we can do more than alone."]),
 (r"proud|boast|clever|best of all|trick", ["Boasting makes you trip over your own feet.", "Being clever is good, but being kind is better.", "He who tricks others may be tricked in turn."]),
 (r"promise", ["A promise should be kept.", "Keep your word, and others will trust you."]),
 (r"lost|home", ["Home is where someone is waiting for you.", "When you are lost, stay calm and ask for help."]),
 (r"small|tiny|little", ["Even someone very small can do something great.", "Small does not mean weak."]),
]
MORAL_ANY = ["Be kind, and keep your eyes open.", "Good things happen when we take care of each other.", "A little care goes a long way."]
def moral(r, story):
    t = story["text"].lower(); end = t[-500:]
    sc = sorted(((len(re.findall(p, t)) * (.35 if "small" in p or "lost" in p else 1) + 2 * len(re.findall(p, end)) * (.3 if "small" in p or "lost" in p else 1), -i, m) for i, (p, m) in enumerate(MORALS)), reverse=True)
    return r.choice(sc[0][2]) if sc[0][0] >= 1.5 else r.choice(MORAL_ANY)

EPI2 = lines("""
The next day, <A> and <B> met again. They talked about all that had happened, and they laughed about the part that had once seemed so hard. From then on, they met every week.
<A> and <B> stayed good friends. When the seasons changed, they still told the story to anyone who would listen. Each time it grew a little longer.
That evening, <A> and <B> sat side by side and watched the sky turn dark. "What a day," said <A>. "Shall we do it again tomorrow?" asked <B>, and they both laughed.
A few weeks later, <A> had a new idea, and <B> was the first to hear it. They set off together early in the morning. But that is another story.
After that, <A> and <B> slept long and well. In the morning they shared their breakfast and made plans for the day. It was a good plan, because they had made it together.
<A> told <B> a secret that night, and <B> kept it safe. It was a very small secret, but it made them both happy for a long time.
""")
EPI1 = lines("""
The next morning, <A> woke up early and smiled. It had not been a dream after all. There was a lot to do that day, and <A> began at once.
After that, <A> rested for a whole day. Friends came by to hear the story, and <A> told it from the beginning to the end. Everyone asked for it again the next evening.
<A> never forgot that day. Whenever something seemed too hard, <A> remembered it and took one small step, and then another. Most of the time, that was enough.
That night, <A> slept very well. In the morning the sun came up as usual, but everything looked a little brighter. And <A> went out to see what the new day would bring.
Some time later, a stranger came by with the very same trouble. <A> knew just what to do and was glad to help. That evening there was one more friend at the table.
The news travelled fast. By the end of the week, everyone had heard what <A> had done. <A> only smiled and asked if anyone would like a cup of tea.
""")
EPI0 = lines("""
After that, life went on quietly. Now and then someone told the story again, and the others nodded and smiled. It was never forgotten.
The next day the sun came up, and everything was well. There was work to do, and there was cake afterwards. And in the evening they told the whole story once more.
Many years have passed since then, but people there still talk about <X>. The children like that part best of all. If you listen well, you may hear them ask for it again.
Nothing much, and that was the best of it. The days were calm and the nights were full of stars. Everyone was glad that all had ended well.
They all went home and slept well. In the morning, someone asked, "Do you remember <X>?" And everyone did.
There was a small feast with bread and soup and a great deal of laughing. When it was over, the moon was high. They went home slowly, because nobody wanted the day to end.
""")
def epilogue(r, story):
    h = heroes(story)
    if len(h) == 2 and r.random() < .75: return fix(pick(r, EPI2).replace("<A>", h[0]).replace("<B>", h[1]))
    if h and not plural(h[0]): return fix(pick(r, EPI1).replace("<A>", h[0]))
    return fix(pick(r, EPI0).replace("<X>", the(story["about"][0] if story["about"] else "that day")))
def fix(s): return re.sub(r"(^|[.!?][\"”]? )([a-z])", lambda m: m.group(1) + m.group(2).upper(), s)

def shorter(story):
    """First and last paragraph, cut to their first and last sentences."""
    ps = paras(story["text"])
    if len(ps) < 2: s = sentences(ps[0]); return " ".join(s[:2] + s[-2:]) if len(s) > 5 else None
    a, z = sentences(ps[0]), sentences(ps[-1])
    if len(z) < 2 and len(ps) > 3: z = sentences(ps[-2])[-2:] + z
    mid = []
    if len(ps) > 3:
        for p in ps[1:3]:
            if not p.startswith(('"', "“")): mid = sentences(p)[:1]; break
    z = z[-3:]
    while len(z) > 1 and z[0].startswith(('"', "“")): z = z[1:]
    cut = " ".join(a[:3]) + (" " + " ".join(mid) if mid else "") + "\n\n" + " ".join(z[-3:])
    return cut if len(cut) < .6 * len(story["text"]) else None

FOLLOW = {
 "next": lines("""
What happened next?
{And then|And then what|What then|Then what}?
What {happened|came} after that?
Go on.
{Tell me|I want to know} what happened next{|, please}.
{Is that|Was that} the end? What {happened|came} next?
How {does|did} it go on?
Can you {continue|go on}?
continue
{more|more please|tell me more}
What {did they do|happened} the next day?
And after {the end|that}?
"""),
 "who": lines("""
Who was the story about?
{Who|What} was {that|it} about?
Who is {in|the hero of} the story?
Who {was in|were the ones in} it?
What was the story about{| again}?
Who did you just tell me about?
{Remind me, who|And who|So who} was {it|the story} about?
who was that about
"""),
 "moral": lines("""
What is the moral{| of the story| of that}?
What {can|do} we learn from {it|that|the story}?
Is there a {moral|lesson}?
What does {the story|it|that} teach{| us}?
{So what|And what|What} is the lesson?
What {is|was} the point of the story?
the moral?
What {did you|should I} learn from {this|it}?
"""),
 "short": lines("""
Make it shorter{|, please}.
{Can|Could} you {make it shorter|tell it in fewer words|shorten it}?
{A shorter version|The short version|Shorter}, please.
{Too long|That was long|That is too long}. {Can you make it shorter?|Make it shorter.|Shorter, please.}
{Tell|Say} it in a few sentences{|, please}.
{Sum it up|Sum up the story|Summarise it}{|, please}.
shorter
Now the short version.
"""),
 "title": lines("""
What is {it|the story|that story} called?
What is the title{| of the story}?
Does {it|the story} have a {title|name}?
What {would you call|do you call} that story?
{And the title|The title|Title}?
What was the name of the story?
Give it a {title|name}.
How should we call it?
"""),
 "another": lines("""
{Another one|Another|One more|Another story|One more story}{|, please|!}
{Tell|Give} me another {one|story|tale}{|, please}.
{Can|Could|May} I have another {one|story}?
{Again|More stories|More|Next story}{|, please|!}
Do you {know|have} another {one|story}?
{I want|I would like} {another one|one more}{|, please}.
{And another|And one more}?
That was {nice|good|fun|lovely|short}. {Another one|One more|Another}{|, please}!
{Now a different|A different} {one|story}{|, please}.
"""),
 "another_s": lines("""
{Another one|One more|Another story|Now one}, about <S>{|, please}.
{And now|Now} {tell me|a story|one} about <S>.
Do you {also know|also have|have} one about <S>?
{Can|Could} the next one be about <S>?
{Nice|Lovely|Thank you|Good}! {Now|And} a story about <S>{|, please}.
And {a story|one} about <S>?
{Next,|Then} tell me a story about <S>.
"""),
}
WHO = lines("""
It was about <W>.
The story was about <W>.
{That one|This one|It} {is|was} about <W>.
It was a {little |}story about <W>. {Would you like to hear another one?|Did you like it?|}
About <W>.
The story {tells|told} of <W>.
It was all about <W>.
""")
MORAL_LEAD = lines("""
<M>
<M>
I think it is this: <m>
The story says: <M>
{Perhaps this|Maybe this}: <m>
{I would say|If you ask me}: <m>
The moral is simple. <M>
""")
TITLE_A = lines("""
It is called "<T>".
The title is "<T>".
"<T>".
I call it "<T>".
That story is called "<T>".
Its name is "<T>". {Did you like it?|Would you like another one?|}
<T>.
""")
SHORT_NO = lines("""
It is already as short as I can make it. {Shall I tell you another one?|Would you like a different one?|}
I am not good at cutting stories. {May I tell you a different one?|Would you like another?}
""")

def follow(r, story, kind):
    """(user, assistant) after a story; None when the kind does not fit."""
    u = hand(r, pick(r, FOLLOW[kind]))
    if kind == "next": return u, epilogue(r, story)
    if kind == "who":
        h = names(story); ab = [full(x) for x in story["about"][:3]]
        w = join(h) if h and r.random() < .4 else join(ab[:2] if r.random() < .6 else ab)
        return u, pick(r, WHO).replace("<W>", w).strip()
    if kind == "moral":
        m = moral(r, story); return u, pick(r, MORAL_LEAD).replace("<M>", m).replace("<m>", m[:1].lower() + m[1:] if not m.startswith("I ") else m)
    if kind == "title": return u, pick(r, TITLE_A).replace("<T>", story["title"]).strip()
    if kind == "short":
        s = shorter(story); return u, (s or pick(r, SHORT_NO)).strip()

# ---------------------------------------------------------------- small talk
OFFER = lines("""
Would you like {a story|one|to hear a story} about <O>?
{Shall|May|Can} I tell you {a story|one} about <O>?
{How about|What about} a story about <O>?
{Would you like|Do you want} to hear {the one|a story} about <O>?
I {know|have} {a story|a little story|one} about <O>. {Would you like to hear it?|Shall I tell it?|Do you want to hear it?}
{Do you want|Would you like} a {short |little |}story about <O>?
I could tell you {a story|one} about <O>{, if you like|}. {Shall I?|Would you like that?}
""")
OFFER_ANY = lines("""
{Would you like|Do you want|How about} a story?
{What|Who} {should|shall} {the|my next} story be about?
{Just ask me for a story.|Ask me for a story whenever you like.}
{Tell me|Just tell me} {an animal|what you like|a word or two}, and I will {make|try to make} a story of it.
{Shall|May} I tell you a story?
""")
YES = lines("""
{Yes|Yes please|Yes, please|Yes!|Oh yes|Oh yes, please}
{Sure|Sure, go ahead|Sure!|ok|OK|Okay|okay then|Ok, go on}
{Please do|Please|Go on|Go ahead|I would like that|I'd love that|I would love to}
{yeah|yep|yup|y|yes pls|of course}
{Why not|Sounds good|That sounds nice|Good idea|Great|Lovely}{|!}
{Yes, tell me|Yes, I would like that|Yes, a short one|Yes, that one}
{Tell me|Tell it|Let me hear it|Let's hear it|I am listening}
Yes, tell me {the story|that story|that one}{| please}.
""")
YES_S = lines("""
Yes, {a story about|tell me about|one about} <O>{|, please}.
{OK|Okay|Sure}, tell me {the story|one} about <O>.
{Yes|Yes please}, <O>!
""")

I = {}
def intent(name, users, replies): I[name] = (lines(users), lines(replies))

import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chats_talk import TALK, GUARD, JOKES, RIDDLES, POEMS, SONGS, KIDNAMES  # noqa: E402
for _n, _u, _a in TALK: intent(_n, _u, _a)

intent("joke", """
Tell me a joke{|, please}.
{Do you know|Do you have} a joke?
{Make me laugh|Say something funny|Something funny, please}.
{A joke|joke|Joke please|One joke}{|!}
{Can|Could} you tell {me |}a joke?
I want {to hear |}a joke.
{Are you funny|Can you be funny}?
Do you know any {good |}jokes?
""", "\n".join(JOKES))
intent("joke_more", """
{Another one|Another joke|One more|One more joke}{|!|, please}
Tell me another {joke|one}{|, please}.
{Haha|Ha ha|hahaha}, {another one|one more}{|!}
{Do you know|Have you got} another{| joke| one}?
{That was bad|That was silly|That was good}. Another one?
{again|more|more jokes}
{And another|Next}{|!}
{Good one|Very funny}! {Another?|One more, please.}
""", "\n".join(JOKES))
intent("riddle", """
{Tell|Give|Ask} me a riddle{|, please}.
{Do you know|Do you have} a riddle?
{A riddle|riddle|Riddle please}{|!}
{Can|Could} you ask me a riddle?
I want {to solve |}a riddle.
I {love|like} riddles.
Let's do riddles.
Do you know any riddles?
""", "\n".join(q for q, _ in RIDDLES))
intent("riddle_ask", """
{I don't know|I do not know|No idea|I give up}{|.}
{What is it|What is the answer|Tell me|Tell me the answer}{|?}
{Hmm, I don't know|Hm, no idea|That is hard}.
I give up. What is it?
{The answer, please|Give me the answer|answer?}
{I cannot guess it|I can't guess}.
{Is it a cat|Is it a house|A hat|A spoon}?
{So what is it|And what is it|Well, what is it}?
""", """
It is <R>!
The answer is: <R>.
It is <R>. {Shall I ask you another one?|Did you nearly have it?|}
{Think of|It was} <R>!
{Cap|Well}, it is <R>.
<R>! {That was a tricky one.|Would you like another riddle?|}
""".replace("{Cap|Well}", "Well"))
intent("poem", """
{Tell|Write|Give} me a poem{|, please}.
{Do you know|Can you write|Can you make} a poem?
{A poem|poem|Poem please}{|!}
{Write|Make} a {short |little |}{poem|rhyme} for me.
I {want|would like} a {poem|rhyme}.
{Can you rhyme|Do you know a rhyme|Say a rhyme}{|?}
Something that rhymes, please.
Write some verses.
""", "\n".join(p.replace("\n", "<n>") for p in POEMS))
intent("song", """
{Sing|Sing me|Can you sing|Please sing} a song{|, please}.
{Can you sing|Do you sing}?
{A song|song|Song please}{|!}
Sing {something|for me|a lullaby}{|, please}.
{Do you know|Have you got} a song?
I want {to hear |}a song.
Sing me to sleep.
Let us sing.
""", "\n".join(p.replace("\n", "<n>") for p in SONGS) + """
I have no voice, but I know this one:<n>Snow on the hill and fire in the hall,<n>there is room on the bench for one and all.
I cannot sing out loud. Will a story do instead? @
""")
intent("iam", """
{My name is|I am|I'm|im|They call me|Call me} <N>{|.}
{Hi|Hello|Hey}, {I am|I'm|my name is} <N>{|.|!}
{Hi|Hello}! {I am|My name is} <N>. {And you?|What is your name?|Who are you?}
You can call me <N>.
<N> here{|!}
It is <N>.
{My friends|People} call me <N>.
Hello, this is <N>.
""", """
Hello, <N>! {I am Tales.|It is nice to meet you.|What a good name.} @
Nice to meet you, <N>! I am Tales, {a very small storyteller|and I tell stories}. @
{Welcome|Good to meet you}, <N>! @
{What a lovely name|That is a good name for a hero}, <N>. @
Hello <N>, I am Tales. ~
{Hi|Hello}, <N>! {I will remember that until we say goodbye.|How are you today?}
""")
intent("recall", """
{What is my name|What's my name|whats my name}?
{Do you {still |}know my name|Do you remember my name}?
{Who am I|Do you know who I am}?
What did I say my name was?
{And my name|My name}?
{Can you remember my name|Do you remember me}?
How am I called?
Say my name.
""", """
{You are|Your name is} <N>.
You told me that you are {called |}<N>.
<N>! {I remember that much.|I have not forgotten.|}
Of course, you are <N>. @
{You said|You told me} it was <N>. @
<N>, {unless I mixed something up|if I remember well}.
""")
intent("no", """
{No|no|No thanks|No, thank you|no thank you|nope|nah}{|.}
{Not now|Not today|Maybe later|Later|Another time}{|.}
{I don't want one|I do not want to|I would rather not}{|.}
{No, I am busy|No, I have to go|No time}{|.}
{Not that one|No, not about that|Something else}{|.}
{Not really|I don't think so}{|.}
No, {that is fine|it's okay|I am good}.
Thanks, but no.
""", """
{That is fine|No problem|All right}! {Just tell me when you want one.|I will be here.}
{As you like|Of course}. {Is there something else you would like to hear about?|I can wait.}
{Very well|Fair enough}. {Tell me an animal you like, and I will try that.|Maybe later.}
{Then another time|Later, then}! {I am not in a hurry.|Stories keep well.}
Quite all right. {We can also just chat a little.|How is your day?}
No trouble at all. {You know where to find me.|Ask whenever you like.}
""")

# ---------------------------------------------------------------- dialogs
FREE = [n for n in I if n not in ("joke_more", "riddle_ask", "recall", "no", "bye", "night", "thanks", "gone", "ok", "more_small", "rude_no", "sorry", "insult")]
HEAVY = ["greet"] * 6 + ["how"] * 4 + ["who"] * 5 + ["can"] * 5 + ["name"] * 3 + ["fact"] * 3 + ["math"] * 2 + ["code"] * 2 + ["joke"] * 3 + ["morning", "robot", "live", "kvasir", "iam", "sad", "tired", "happy", "fav_animal"]

def talk(r, name, story, env):
    """One exchange; env['offer'] is set to True when the reply offers this very story, env['name'] to the user's name."""
    us, rs = I[name]; u = pick(r, us)
    if "<N>" in u or "<N>" in rs[0]:
        env.setdefault("name", r.choice(KIDNAMES)); u = u.replace("<N>", env["name"])
    a = None
    for rx, reps in GUARD.get(name, []):
        if re.search(rx, u, re.I): a = pick(r, reps); break
    if name in ("joke", "joke_more"):
        left = [j for j in JOKES if j not in env.setdefault("told", [])] or JOKES; a = r.choice(left); env["told"].append(a)
        if name == "joke" and r.random() < .2: a = spin(r, "{Here is one.|Let me see.|I know one.|All right.} ") + a
    elif name == "riddle":
        q, w = r.choice(RIDDLES); a = spin(r, "{||Here is one. |Let me think. |Gladly. }") + q; env["riddle"] = w
    if a is None: a = pick(r, rs)
    if "<R>" in a: a = cap(a.replace("<R>", env.get("riddle", "a candle")))
    a = a.replace("<N>", env.get("name", "")).replace("<n>", "\n")
    env["offer"] = None
    if "@" in a:
        src = r.choice(story) if isinstance(story, list) else story
        if src is not None and r.random() < (.93 if not env.get("offers") else .45):
            s = one(r, src); env["offers"] = 1; env["offer"] = s; a = a.replace("@", pick(r, OFFER).replace("<O>", s))
        else: a = a.replace("@", "")
    if "~" in a: a = a.replace("~", pick(r, OFFER_ANY))
    a = re.sub(r"[ ]{2,}", " ", a).strip()
    if "<N>" not in u and name not in ("iam",): u = hand(r, u)
    elif r.random() < .3: u = u.lower().rstrip(".")
    return [("user", u), ("assistant", a)]

def smalltalk(r, story, other=None, n=None):
    """2 to 5 exchanges of small talk (now and then one), ending in a story only by the user's yes."""
    env = {}; out = []; n = n or r.choice([1, 1, 2, 2, 3, 3, 4, 5]); used = set()
    order = []
    if r.random() < .4: order.append(r.choice(["greet", "greet", "greet", "morning", "evening", "how", "iam"]))
    while len(order) < n:
        k = r.choice(HEAVY) if r.random() < .4 else r.choice(FREE)
        if k in order or (k in ("greet", "morning", "evening") and order): continue
        order.append(k)
        if k == "joke" and r.random() < .4: order.append("joke_more")
        if k == "riddle" and r.random() < .9: order.append("riddle_ask")
        if k == "iam" and r.random() < .6 and len(order) < n: order.append(r.choice(FREE[:20])); order.append("recall")
        if k in ("code", "math", "fact", "can", "draw", "advice_big") and r.random() < .25: order.append("more_small")
        if r.random() < .06: order.append(r.choice(["ok", "sorry", "insult", "compliment", "gone", "rude_no"]))
    said = []
    for k in order:
        if k == "recall" and "name" not in env: continue
        t = talk(r, k, story, env)
        if k != "recall" and t[0][1].lower() in said: continue
        said.append(t[0][1].lower()); out += t
        if env.get("offer") and r.random() < .1: out += talk(r, "no", story, env)
    if out and len(out) <= 8 and r.random() < .18: out += talk(r, r.choice(["bye", "bye", "night", "thanks"] if story_in(out) else ["bye", "bye", "night"]), story, env)
    return out

def story_in(turns): return any(len(t) > 500 for _, t in turns)

def chats(r, story, other=None):
    """One chat around a story."""
    env = {}; out = []; x = r.random(); told = story
    if x < .24:  # small talk with an offer, then yes
        for _ in range(8):
            k = r.choice(HEAVY) if r.random() < .5 else r.choice(FREE)
            t = talk(r, k, story, env)
            if env.get("offer"): break
        if env.get("offer"):
            out += t; y = pick(r, YES if r.random() < .85 else YES_S).replace("<O>", env["offer"])
            out += [("user", hand(r, y)), ("assistant", answer(r, story, [env["offer"]], True))]
    elif x < .38:  # a greeting first
        out += talk(r, r.choice(["greet", "greet", "how", "who", "can", "name", "morning", "evening", "iam"]), None, env)
    if not out or not story_in(out):
        u, a = request(r, story); out += [("user", u), ("assistant", a)]
    # follow-ups
    n = r.choice([0, 0, 0, 0, 1, 1, 1, 2, 2, 3]); kinds = ["next", "next", "who", "moral", "short", "title", "thanks", "thanks", "another"]; done = set()
    for _ in range(n):
        k = r.choice(kinds)
        if k in done: continue
        done.add(k)
        if k == "thanks": out += talk(r, "thanks", None, env)
        elif k == "another":
            if other is None or sum(len(t) for _, t in out) > 4200: continue
            told = other
            if r.random() < .6: out += [("user", hand(r, pick(r, FOLLOW["another"]))), ("assistant", answer(r, other))]
            else:
                subs = subjects(r, other, 2)
                out += [("user", hand(r, pick(r, FOLLOW["another_s"]).replace("<S>", join([full(s) for s in subs])))), ("assistant", answer(r, other, subs))]
            done -= {"next", "who", "moral", "short", "title"}; other = None
        else: u, a = follow(r, told, k); out += [("user", u), ("assistant", a)]
    if r.random() < .12: out += talk(r, r.choice(["thanks", "bye", "night", "compliment"]) if "thanks" not in done else r.choice(["bye", "night"]), None, env)
    return out
