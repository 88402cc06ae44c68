"""Animal story generator. Standard library only."""
import re

SCHEMAS = []

MALE = ("Tom Ben Oscar Felix Hugo Leo Max Sam Jasper Otto Finn Toby Barney Monty Rufus Archie Gus Ned Pip "
        "Basil Teddy Walter Milo Arlo Bruno Casper Dexter Edgar Freddie Henry Ivo Jack Kit Louis Morris Nico "
        "Percy Quinn Ralph Silas Theo Wilf Albert Bertie Clem Digby Elmo Fergus Gilbert Harvey").split()
FEMALE = ("Daisy Molly Ruby Lily Poppy Rosie Hazel Ivy Bella Tilly Nora Mabel Pearl Willow Clara Dora Elsie "
          "Fern Greta Hattie Iris Josie Kitty Lottie Maisie Nell Olive Penny Queenie Robin Sadie Tess Una Vera "
          "Winnie Zara Betsy Cora Della Edie Flora Gwen Holly Juno Luna Martha Nina Opal Polly Sally").split()
FEMALE.remove("Robin")

# species: home ("lived in ..."), food, way of moving
SP = {
    "mouse": ("a hole under an oak tree", "seeds", "scurried"),
    "rabbit": ("a burrow on the green hill", "clover", "hopped"),
    "squirrel": ("a hollow tree", "nuts", "scampered"),
    "hedgehog": ("a nest of dry leaves", "berries", "trotted"),
    "mole": ("a tunnel under the meadow", "worms", "shuffled"),
    "badger": ("a den in the river bank", "roots", "trudged"),
    "fox": ("a den between the roots of a beech", "blackberries", "trotted"),
    "otter": ("a snug den by the stream", "fish", "bounded"),
    "beaver": ("a lodge made of sticks", "bark", "waddled"),
    "chipmunk": ("a burrow under a fallen log", "acorns", "darted"),
    "raccoon": ("a hollow log", "berries", "padded"),
    "deer": ("a hollow full of ferns", "grass", "stepped"),
    "bear": ("a cave at the foot of the hill", "honey", "lumbered"),
    "toad": ("a damp hole under a stone", "flies", "hopped"),
    "frog": ("a bed of reeds at the pond", "flies", "hopped"),
    "duck": ("the reeds beside the pond", "water weed", "waddled"),
    "turtle": ("the mud at the edge of the pond", "water plants", "plodded"),
    "newt": ("the weeds of a small pond", "gnats", "wriggled"),
    "goose": ("a nest of straw by the water", "grass", "waddled"),
    "robin": ("a nest in the holly bush", "worms", "fluttered"),
    "sparrow": ("a nest under the barn roof", "crumbs", "flitted"),
    "wren": ("a round nest in the ivy", "tiny bugs", "flitted"),
    "blackbird": ("a nest in the hedge", "worms", "flew"),
    "finch": ("a nest in the apple tree", "seeds", "fluttered"),
    "crow": ("a nest at the top of a tall pine", "corn", "flapped"),
    "magpie": ("a big untidy nest in an elm", "grubs", "flapped"),
    "owl": ("a hole high up in an old oak", "moths", "glided"),
    "cow": ("the big red barn", "hay", "ambled"),
    "pig": ("a cosy sty behind the barn", "turnips", "trotted"),
    "goat": ("a shed beside the orchard", "thistles", "skipped"),
    "sheep": ("the field beside the lane", "grass", "trotted"),
    "hen": ("a little wooden hen house", "corn", "strutted"),
    "horse": ("a stable by the gate", "oats", "clopped"),
    "donkey": ("a stone stable in the yard", "carrots", "plodded"),
    "dog": ("a kennel by the back door", "biscuits", "bounded"),
    "cat": ("a basket by the kitchen stove", "fish", "crept"),
    "ant": ("a nest under the garden path", "crumbs", "marched"),
    "beetle": ("a crack in the garden wall", "leaves", "crawled"),
    "ladybug": ("the leaves of a rose bush", "tiny green bugs", "crept"),
    "cricket": ("a warm gap in the wall", "grass", "hopped"),
    "grasshopper": ("the long grass", "grass", "leaped"),
    "snail": ("a cool spot under a flower pot", "lettuce", "slid"),
    "bee": ("a hive at the end of the garden", "nectar", "buzzed"),
}
FOREST = "mouse rabbit squirrel hedgehog mole badger fox chipmunk raccoon".split()
SMALL = "mouse rabbit squirrel hedgehog mole chipmunk".split()
BIRDS = "robin sparrow wren blackbird finch".split()
FARM = "cow pig goat sheep hen horse donkey".split()
BUGS = "ant beetle ladybug cricket grasshopper snail".split()
ADJ = "small young cheerful quiet busy gentle curious friendly clever".split()


class Ch:
    def __init__(self, r, sp, name, sex, adj=None):
        self.n = name
        self.sp = sp
        m = sex == "m"
        self.he, self.him, self.his = ("he", "him", "his") if m else ("she", "her", "her")
        self.himself = "himself" if m else "herself"
        self.own = "his" if m else "hers"
        self.He, self.His = self.he.capitalize(), self.his.capitalize()
        self.the, self.The = "the " + sp, "The " + sp
        self.home, self.food, self.move = SP.get(sp, ("the wood", "food", "went"))
        self.adj = adj or r.choice(ADJ)
        self.mum = "mother"


def cast(r, *pools, sexes=None):
    """One character from each pool: different species, names and first letters."""
    out, used_sp, used_l = [], set(), set()
    for i, p in enumerate(pools):
        p = [p] if isinstance(p, str) else p
        sp = r.choice([x for x in p if x not in used_sp] or p)
        used_sp.add(sp)
        sex = sexes[i] if sexes and sexes[i] in "mf" else r.choice("mf")
        if sp in ("cow", "hen"):
            sex = "f"
        bank = [n for n in (MALE if sex == "m" else FEMALE) if n[0] not in used_l]
        name = r.choice(bank)
        used_l.add(name[0])
        out.append(Ch(r, sp, name, sex))
    return out


def expand(r, s):
    def parse(i, top):
        opts, cur, shuf = [], [], False
        if not top and s[i] == "~":
            shuf, i = True, i + 1
        while i < len(s):
            c = s[i]
            if c == "{":
                t, i = parse(i + 1, False)
                cur.append(t)
            elif c == "|" and not top:
                opts.append("".join(cur))
                cur, i = [], i + 1
            elif c == "}" and not top:
                opts.append("".join(cur))
                if shuf:
                    r.shuffle(opts)
                    return " ".join(opts), i + 1
                return r.choice(opts), i + 1
            else:
                cur.append(c)
                i += 1
        return "".join(cur), i
    return parse(0, True)[0]


def sub(v, s):
    def f(m):
        x = v[m.group(1)]
        if isinstance(x, Ch):
            return getattr(x, m.group(2) or "n")
        return x + ("." + m.group(2) if m.group(2) else "")
    return re.sub(r"\$(\w+)(?:\.(\w+))?", f, s)


def an(s):
    return re.sub(r"\b([Aa])~ (\w)", lambda m: m.group(1) + ("n" if m.group(2) in "aeiouAEIOU" else "") + " " + m.group(2), s)


def story(r, v, title, text, about):
    title = an(sub(v, expand(r, title))).strip()
    text = an(sub(v, expand(r, text)))
    paras = [re.sub(r"\s+", " ", p).strip() for p in re.split(r"\n\s*\n", text)]
    return {"title": tcase(title), "text": "\n\n".join(p for p in paras if p), "about": [sub(v, a) for a in about]}


def tcase(t):
    small = {"a", "an", "the", "and", "of", "in", "on", "to", "who", "for", "by", "at", "with"}
    w = t.split()
    return " ".join(x if (i and x.lower() in small) else x[:1].upper() + x[1:] for i, x in enumerate(w)).replace(" Who ", " Who ")


def sentences(t):
    return [x.strip() for x in re.split(r'(?<=[.!?])"?\s+', t) if len(x.split()) > 2]


def ok(d):
    t = d["text"]
    n = len(t.split())
    p = t.count("\n\n") + 1
    ss = sentences(t)
    return 120 <= n <= 380 and 2 <= p <= 7 and len(ss) == len(set(ss))


def schema(f):
    def g(r):
        for _ in range(80):
            d = f(r)
            if ok(d):
                return d
        return d
    g.__name__ = f.__name__
    SCHEMAS.append(g)
    return g


@schema
def proud_help(r):
    a, b = cast(r, "beaver badger fox deer raccoon bear".split(), SMALL)
    k = r.choice([
        ("log", "a heavy log had rolled across {h} door", "push the log away", "dug a small tunnel under one end so that the log tipped and rolled down the slope", "roll"),
        ("thorn", "a long thorn had stuck deep in {h} back, just out of reach", "get the thorn out", "took hold of the thorn with tiny teeth and pulled it out in one quick tug", "pull"),
        ("branch", "a broken branch had fallen on {h} winter food", "lift the branch", "bit through the twigs one by one until the branch was light enough to slide away", "bite"),
    ])
    v = dict(a=a, b=b, obj=k[0], prob=k[1].replace("{h}", a.his), job=k[2], fix=k[3])
    return story(r, v, "{The Proud $a.sp|$a Asks for Help|$a and the $obj|A Small Helper}", """
{$a was the strongest $a.sp in the wood, and $a.he liked everyone to know it.|There was once a~ $a.sp named $a who was very proud.|In $a.home lived $a, a~ $a.sp who never asked anyone for anything.} {"I can do everything by myself," $a.he used to say.|When others offered to help, $a.he only shook $a.his head. "No, thank you. I can manage."|If a neighbour said, "Shall I help you?" $a.he laughed. "Me? I never need help!"}

{One morning|One windy day|After a stormy night|Early one autumn day}, $a {found|saw} a problem: $prob. {$a.He tried to $job, but it did not move.|$a.He puffed and grunted and tried to $job. Nothing happened.|"Easy," said $a, and $a.he tried to $job. It was not easy at all.} {$a.He tried again until $a.he was out of breath.|By noon $a.he was hot, tired and cross.|$a.He tried it slowly. $a.He tried it fast. The $obj stayed just where it was.}

{A little $b.sp named $b came by and stopped.|Just then $b, a~ $b.sp from across the path, came past.|$b the $b.sp had been watching from behind a fern.} {"May I help?" asked $b.|"That looks hard," said $b. "Two are better than one."|"Would you like some help?" $b asked in a soft voice.}

{"You? You are far too small," said $a. So $b sat down on a stone and waited.|"No!" said $a, and turned away. But $b did not leave. $b.He just sat down and nibbled some $b.food.|$a wanted to say no, and $a.he did. "I never need help," $a.he said, but $a.his voice was not very sure.} {The sun went lower. At last $a sighed.|A long time went by. $a looked at the ground, and then at $b.|After one more try, $a let $a.his head hang down.} {"I can't do it alone," $a.he said. "Please, will you help me?"|"$b," $a.he said quietly, "I was wrong. Could you please help?"|It was hard to say the words, but $a said them. "Please help me, $b."}

{"Of course!" said $b.|"I thought you would never ask," said $b with a smile.|"Gladly," said $b, jumping up.} {$b.He looked carefully, and then $b.he $fix.|It did not take long. $b $fix.} {$a could hardly believe it.|"You did it!" cried $a.|$a stared, and then $a.he began to laugh. "And I called you small!"}

{From that day on, $a still did many things alone, but when a job was too hard, $a.he knew what to say.|That evening they shared supper, and $a told everyone who had saved the day.|After that, $a was a little less proud and a good deal happier.} {"Asking for help," $a.he told the others, "is not the same as being weak."|It turned out that asking was the hardest part, and the best part was having a friend.|And whenever $b had something heavy to carry, $a was the first one there.}
""", ["proud $a.sp", "$b.sp"] if r.random() < .6 else ["$a.sp", "$b.sp"])


@schema
def winter_share(r):
    a, b = cast(r, ["squirrel", "mouse", "chipmunk"], BIRDS + ["rabbit", "hedgehog"])
    store = {"squirrel": "hazelnuts", "mouse": "wheat seeds", "chipmunk": "dried berries"}[a.sp]
    v = dict(a=a, b=b, store=store, warm=r.choice(["some thick moss", "a heap of soft feathers", "a pile of dry leaves"]))
    return story(r, v, "{The Winter Supper|Enough for Two|$a and $b in the Snow|The Long Winter}", """
{All through the autumn, $a the $a.sp had worked hard.|$a was a~ $a.sp who liked to plan ahead.|When the leaves turned yellow, $a the $a.sp got ready for winter.} {$a.He had filled $a.his little store with $store, row upon row.|Day after day $a.he carried $store home and piled them up neatly.} {Now the snow had come, and $a.he was safe and snug.|Then the first snow fell, and $a closed the door with a happy sigh.}

{One bitter evening there was a tap at the door.|On the coldest night of all, $a heard a small knock.|One night, while the wind blew outside, somebody tapped at the wall.} {Outside stood a~ $b.sp, covered in snow.|It was a~ $b.sp, shaking from head to foot.} {"My name is $b," $b.he said. "The snow has covered all my food. May I warm up a little?"|"I am $b," $b.he whispered. "I can't find anything to eat under all this snow."}

{$a looked back at the $store. Would there be enough for two?|$a thought about it. The winter was long, and the store was not so very big.|At first $a did not know what to say. $a.He had counted every bit of food, and it was just enough for one.} {But $b looked so cold that $a opened the door wide.|Then $a saw how $b was shivering, and $a.he made up $a.his mind.} {"Come in," $a.he said. "We will eat a little less, that's all."|"Come in, come in! Half of a supper is still a supper," $a.he said.}

{So they shared. Each day they ate only a small meal, and each evening they told stories.|They counted the food together and made a plan: a little in the morning, a little at night.} {$b knew many songs, and the dark evenings did not seem so long.|$b was good at riddles, and they laughed until their sides hurt.|It was $b who found $warm in a corner and made a bed big enough for both of them.}

{But in the last week of winter the store was empty.|Then, one grey morning, they ate the very last of the $store.|Still, the snow stayed too long, and one day the shelf was bare.} {"Oh dear," said $a. "What shall we do now?"|$a tried not to look worried.} {"Now it is my turn," said $b. "I know a holly bush by the stream that keeps its berries all winter. It was too far to go when I was weak, but now I am strong."|"You fed me when I was hungry," said $b. "Now I am strong again, and I remember where the rose hips grow, on the sunny side of the hill."} {$b.He went out and came back with {enough red fruit for a feast|supper for them both}.|Off $b.he went, and before dark $b.he was back with plenty for two.}

{A few days later the snow melted, and the first flowers came up.|Soon the sun grew warm, and the ice on the stream broke up.} {"I thought sharing would leave me with less," said $a. "But I got a friend."|$a and $b sat in the sunshine side by side. Neither of them had been lonely for a single day.|The next autumn they filled the store together, and it was twice as big.}
""", ["$a.sp", "$b.sp", "winter"] if r.random() < .5 else ["$a.sp", "$b.sp"])


@schema
def lost_chick(r):
    kind, mum, word, sound = r.choice([("chick", "hen", "Mother Hen", "cluck, cluck"), ("duckling", "duck", "Mother Duck", "quack, quack"), ("gosling", "goose", "Mother Goose", "honk, honk")])
    h1, h2 = cast(r, ["cow", "horse", "donkey", "sheep"], ["pig", "goat", "cat", "dog"])
    c = cast(r, kind)[0]
    while c.n[0] in (h1.n[0], h2.n[0]):
        c = cast(r, kind)[0]
    v = dict(c=c, kind=kind, mum=mum, M=word, snd=sound, a=h1, b=h2, thing=r.choice(["a white butterfly", "a blue dragonfly", "a floating feather", "a shiny green beetle"]))
    return story(r, v, "{The Lost $kind|$c Finds the Way Home|Where Is Mother?|$c and the $thing}".replace("$thing", {"a white butterfly": "Butterfly", "a blue dragonfly": "Dragonfly", "a floating feather": "Feather", "a shiny green beetle": "Beetle"}[v["thing"]]), """
{$c was the smallest $kind on the farm.|On a sunny farm lived a fluffy yellow $kind called $c.|$M had six babies, and the last and smallest was a $kind named $c.} {"Stay close to me," $M always said.|Every morning $M took $c.his brothers and sisters out to the meadow, and $c ran along at the end of the line.}

{One day $c saw $thing.|But one fine morning, $thing drifted past $c.his beak.} {$c.He ran after it, round the haystack and under the fence.|"Wait!" $c peeped, and $c.he ran and ran to catch it.} {When it was gone, $c looked around. Nothing looked the way it should.|At last it was gone, and so was everyone else.} {"Peep?" said $c. Nobody answered.|$c was all alone, and the grass was very tall.}

{$c ran until $c.he came to a big, warm animal.|Soon $c.he met a very large animal with kind brown eyes.} It was $a the $a.sp. {"Are you my mother?" asked $c, who was too upset to think.|"Please, have you seen $M?" asked $c.} {"No, little one," said $a. "I have been in this corner all day and I have seen nobody. But do not cry. Try asking $b the $b.sp, over by the gate."|"I have not," said $a gently. "But $b the $b.sp hears everything. Go and ask at the gate."}

{So $c hurried to the gate.|$c wiped $c.his eyes with one small wing and went on.} {"I am lost," $c.he told $b.|$b listened while $c told the whole story.} {"Then the best thing to do is to stand still and listen," said $b. "When you run about, you hear only your own feet."|"Don't run," said $b. "Stand still, be quiet, and tell me what you hear."}

{They both kept very still. First $c heard the wind. Then $c.he heard the stream. And then, far off, $c.he heard "$snd!"|$c held $c.his breath. There was a buzzing bee. There was a squeaky gate. And behind it all there was a tiny "$snd!"} {"That's her!" cried $c.|"I know that voice!" $c peeped.} {$b walked beside $c.him all the way, through the long grass and past the haystack.|$b let $c ride along on a broad back, straight toward the sound.}

{There was $M, looking under every leaf.|And there stood $M with all the other little ones in a row.} {She opened her wing, and $c ran right under it.|"My $c!" she said, and she hugged $c.him close.} {"I was lost, but then I listened," said $c.|$c thanked $b three times, and then once more.} {After that, $c still liked to look at pretty things, but $c.he always kept one ear open for "$snd."|From then on, $c walked at the front of the line, right beside $c.his mother.|That night $c slept in the very middle of the nest, warm on every side.}
""", ["lost $kind"] if r.random() < .5 else ["$kind", "$mum"])


@schema
def patience_race(r):
    fast, slow = r.choice([("rabbit", "turtle"), ("fox", "hedgehog"), ("squirrel", "toad"), ("deer", "badger"), ("grasshopper", "snail"), ("horse", "donkey"), ("cricket", "beetle")])
    a, b = cast(r, fast, slow)
    big = fast in ("deer", "horse", "fox", "rabbit", "squirrel")
    goal = r.choice(["the old bridge", "the tall pine", "the mill", "the big grey rock"]) if big else r.choice(["the rose bush", "the garden pump", "the far end of the wall", "the pumpkin patch"])
    prize = r.choice(["a basket of plums", "a crown of daisies", "a sweet red apple", "a garland of ivy"])
    v = dict(a=a, b=b, goal=goal, prize=prize)
    mid = r.choice(["""
{$a shot off like an arrow.|At the word "Go!" $a was gone in a flash.} {Halfway there, $a.he saw some tasty $a.food beside the path. "I have plenty of time," $a.he said, and $a.he stopped to eat.|But $a soon grew bored with running alone. $a.He lay down in the shade, only for a minute, and closed $a.his eyes.|On the way $a.he met some friends, and $a.he stopped to tell them how fast $a.he was.} {The minutes went by, and $a did not notice.|One minute turned into ten, and ten turned into many more.}

{Meanwhile $b kept on going.|$b did not hurry and did not stop.} {One step, then another, then another.|Past the puddle $b.he went, past the nettles, and up the little slope.} {When $a looked up, $b was almost at $goal. $a jumped to $a.his feet and raced after $b.him.|All at once $a heard cheering. $a.He jumped up and raced on as fast as $a.he could.} {But it was too late. $b was there first.|$a ran and ran, but $b had already arrived.}
""", """
{$a set off so fast that $a.he did not look where $a.he was going.|"Go!" cried everyone, and $a was away before the word was finished.} {At the place where the path split in two, $a.he took the wrong turn.|$a.He did not see the sign at the corner, and $a.he ran the wrong way.} {$a.He ran through a bog, around a thicket, and all the way back again.|Soon $a.he was in a part of the land $a.he did not know, and $a.he had to turn around.}

{$b had asked the way the day before and knew each turn.|$b, who was slow, had time to look at everything, and $b.he saw the right path at once.} {So $b.he went on, slow and steady.|On and on $b.he went, humming a small tune.} {At last $b touched $goal with the tip of $b.his nose.|When $b came to $goal, there was nobody else there.} {Quite a while later, $a came in, muddy and out of breath.|Only after that did $a come running up, covered in burrs.}
"""])
    return story(r, v, "{The Race to $goal|Slow and Steady|$a and $b Run a Race|The Fast $a.sp and the Slow $b.sp}".replace("$goal", goal.title().replace("The ", "the ").replace(" Of ", " of ")), """
{$a the $a.sp was quick, and $a.he never stopped talking about it.|There was no one as fast as $a the $a.sp, or so $a.he said.|"I am the fastest of all," $a the $a.sp said every morning, to anyone who would listen.} {$b the $b.sp was not quick at all, but $b.he did not mind.|$b the $b.sp lived close by. $b.He did everything slowly and did it well.}

{One day $a laughed and said, "$b, by the time you finish breakfast, I have eaten supper."|"Do you ever get anywhere?" $a asked $b one day.} {"I get where I want to go," said $b. "Let us race to $goal, and you will see."|$b only smiled. "Shall we have a race?" $b.he said. "From here to $goal."} {Everyone came to watch, and the prize was $prize.|The others loved the idea, and they got $prize ready for the winner.}
""" + mid + """
{Everyone clapped, and $b was given $prize.|"Hooray for $b!" they shouted, and they gave $b.him $prize.} {$a felt hot with shame. "You won fairly," $a.he said. "I am sorry I laughed."|$a hung $a.his head, but then $a.he did a good thing. $a.He went up to $b and said, "Well done."} {"Come and share my prize," said $b.|"You are still the fastest," said $b kindly. "But fast is not the only thing to be."} {After that, $a did not brag so much, and the two of them often went for walks, at a nice slow pace.|And $a learned that it does not help to be quick if you do not keep your mind on the road.|From then on, when a job was long and hard, everyone said, "Do it like $b."}
""", ["$a.sp", "$b.sp"] if r.random() < .6 else ["race", "$b.sp"])


@schema
def noisy_frog(r):
    a, = cast(r, "frog")
    b, c = cast(r, ["duck", "turtle", "newt"], ["mouse", "rabbit", "wren"])
    while b.n[0] == a.n[0] or c.n[0] == a.n[0]:
        b, c = cast(r, ["duck", "turtle", "newt"], ["mouse", "rabbit", "wren"])
    end = r.choice(["fog", "night"])
    v = dict(a=a, b=b, c=c)
    save = {"fog": """
{Then, one morning, a thick white fog came down.|A few days later, fog rolled over the water, as thick as wool.} {$b had gone out early and could not see the bank.|$b was in the middle of the pond and did not know which way was home.} {"Help!" called $b. "I can't see a thing!"|"Where is the shore?" cried $b.} {$a, who had been silent for days, knew just what to do.|$a jumped up on the tallest stone.} {"CROAK!" $a.he called. "CROAK! Come this way! CROAK!"|$a.He took the deepest breath of $a.his life. "CROAK! CROAK! Follow my voice!"} {$b followed the sound, closer and closer, until $b.he felt the soft mud of the bank.|Little by little $b came toward the noise, and soon $b.he was safe on shore.}
""", "night": """
{Then one dark night, $c did not come home.|That very week, $c went to pick berries and was not back by dark.} {$b and the others called, but their voices were too small.|Everyone was worried. They called and called, but nobody called back.} {"$a," said $b, "would you sing for us? As loud as you can?"|"We need somebody loud," said $b, and they all looked at $a.} {$a climbed on a log, puffed up $a.his throat and sang. "CROAK! CROAK! CROAK!"|So $a sang. The sound went over the pond, up the hill and far into the wood.} {Far away, $c heard it. "That's our pond!" $c.he said, and $c.he followed the song all the way home.|Before long there was a rustle in the grass, and out came $c. "I had lost my way," $c.he said, "until I heard $a."}
"""}[end]
    return story(r, v, "{The Noisy Frog|$a Sings|The Loudest Frog|Too Loud}", """
{$a was a little frog with a very big voice.|At the edge of a pond lived $a, the loudest frog for miles.|Nobody at the pond could croak like $a the frog.} {$a.He croaked at breakfast, $a.he croaked at noon, and at night $a.he croaked at the moon.|In the morning $a.he sang. In the evening $a.he sang. In between, $a.he practised.}

{The trouble was that nobody could sleep.|$a.His neighbours were very tired of it.} {"Please, $a," said $b the $b.sp, "could you stop for a while?"|$b the $b.sp had a headache, and so $b.he came to see $a. "It is too loud," $b.he said.} {$c the $c.sp, who lived in the bank, agreed. "I have not slept for three nights," $c.he said with a yawn.|"My ears hurt," said $c, the $c.sp from the bank.} {$a was sad, but $a.he did not want to be a bad neighbour.|$a had not known. "I am sorry," $a.he said.}

{First $a tried to croak softly, but it came out as loud as ever.|$a tried to sing with a leaf in $a.his mouth. The leaf flew out, and the croak came after it.} {So $a.he closed $a.his mouth and did not sing at all.|In the end $a.he stopped singing and sat under a lily pad all day.} {The pond was quiet, and $a was very lonely.|It was peaceful now, but $a felt as if a part of $a.him was missing.}
""" + save + """
{After that, no one said that $a's voice was too big.|"What a wonderful voice!" everyone said.} {They made a plan together: $a would sing at sunset, and at bedtime there would be quiet.|Now $a sings for one hour each evening, and all the animals come to listen.} {And if anyone is ever lost, they know whose voice to listen for.|$a was happy, $b was happy, and $c slept very well.|It is good to be quiet sometimes, but it is good to be heard, too.}
""", ["noisy frog"] if r.random() < .5 else ["frog", "pond"])


@schema
def bear_sleep(r):
    a, b, c = cast(r, "bear", SMALL, ["owl", "robin", "wren"])
    cause = r.choice([
        ("a hard pine cone under the bed of leaves", "something was poking $a.him in the back", "$b crawled under the bed and came out with a pine cone as hard as a stone"),
        ("he had not said goodnight to his friends", "", ""),
        ("dripping water", "there was a soft plip, plip, plip all the time", "$b followed the sound to the back of the cave and put a thick pad of moss under the drip"),
    ])
    v = dict(a=a, b=b, c=c)
    if cause[1]:
        mid = """
{"Is anything bothering you?" asked $b.|"Tell me just how it feels when you lie down," said $b.} {$a thought hard. "Well," $a.he said, "%s."|"Now that you ask," said $a, "I think %s."} {"Aha!" said $b.|"Then let me have a look," said $b.} {At once %s.|It did not take long: %s.}
""" % (cause[1].replace("$a.him", "me").replace("there was", "there is").replace("was poking", "is poking"), cause[1].replace("$a.him", "me").replace("there was", "there is").replace("was poking", "is poking"), cause[2], cause[2])
        why = "{All that trouble, and it was such a little thing!|Sometimes a big trouble has a small cause.|\"You only had to look,\" said $b, \"but it is hard to look when you are so tired.\"}"
    else:
        mid = """
{"What do you think about when you lie there?" asked $b.|$b sat down beside $a. "What is on your mind?" $b.he asked.} {"I think about spring," said $a. "What if everyone has forgotten me by then?"|$a looked at the floor. "I will be asleep for so long," $a.he said. "I shall miss you all."} {"So that is it," said $b. $b.He ran out and called the others together, and one after another they came into the cave to say goodnight.|"Then we must say a proper goodnight," said $b, and $b.he fetched all the neighbours. Each of them brought $a a little present to keep by the bed: a feather, a smooth stone, a red leaf.}
"""
        why = "{\"We will be here in spring,\" they all promised.|\"Sleep well,\" they said. \"We will tell you everything when you wake up.\"}"
    return story(r, v, "{The Bear Who Could Not Sleep|$a Cannot Sleep|Goodnight, $a|A Bed for a Bear}", """
{Winter was near, and all the bears in the wood were going to bed.|The last leaves had fallen, and it was time for bears to sleep.|It was the end of autumn, and a bear named $a was ready for the long winter sleep.} {$a the bear lay down in $a.his cave and closed $a.his eyes.|$a the bear made a bed of leaves, yawned, and lay down.} {But sleep did not come.|$a.He turned to the left. $a.He turned to the right. $a.He was wide awake.}

{In the morning, $a went to ask $c the $c.sp what to do.|$c the $c.sp lived in the tree above, so $a asked $c.him first.} {"Count falling leaves," said $c. $a counted to two hundred, and then there were no more leaves to count.|"Try humming a slow song," said $c. $a hummed every song $a.he knew, and it only made $a.him more awake.|"Take a long walk," said $c. $a walked to the river and back, and then $a.his feet hurt too.} {That night $a.he did not sleep either.|It did not help one bit.}

{The next day $b the $b.sp came to say hello.|A~ $b.sp named $b heard $a.him sighing and looked in.} {"You look so tired!" $b.he said.|"Why, $a, your eyes are red," $b.he said.} {"I cannot sleep," said $a, "and I have tried everything."|"I am tired," said $a. "I am more tired than I have ever been, but I cannot sleep."}
""" + mid + """
""" + why + """ {$a lay down again. $a.He gave one big yawn.|$a smiled, pulled the leaves up to $a.his chin and closed $a.his eyes.} {Before $b could say another word, $a was snoring.|In less than a minute the cave was full of soft snores.} {$b tiptoed out, and the first snow began to fall.|Outside, the snow came down without a sound, and $b went home on quiet feet.} {When $a woke up, it was spring, and $b was waiting at the door.|And $a slept until the first flowers came.}
""", ["bear"] if r.random() < .4 else ["bear who could not sleep"] if r.random() < .5 else ["bear", "$b.sp"])


@schema
def mouse_kindness(r):
    a, b = cast(r, ["mouse"], ["fox", "deer", "goat", "dog", "horse", "badger"])
    k1 = r.choice([
        ("fell into a bucket of rain water", "lowered {h} head and let the mouse climb up over {h} nose"),
        ("was carried down the stream on a leaf", "stepped into the water and stopped the leaf with one foot"),
        ("got stuck in a deep wheel track in the mud", "lay down so that the mouse could climb out along {h} leg"),
    ])
    k2 = r.choice([
        ("was caught in an old net by the fence", "net", "nibbled at the strings, one after another, until the net fell apart"),
        ("had a foot tangled in a long piece of rope", "rope", "chewed on the rope, thread by thread, until it snapped"),
        ("was caught by the neck in a loop of garden twine", "twine", "climbed up and bit the twine right through"),
    ])
    v = dict(a=a, b=b, k1=k1[0], h1=k1[1].replace("{h}", b.his), k2=k2[0], ob=k2[1], h2=k2[2])
    return story(r, v, "{The Mouse Who Remembered|A Kindness Returned|$a and $b|The Mouse and the $b.sp}", """
{One rainy morning, a mouse named $a $k1.|$a the mouse was out looking for seeds when $a.he slipped and $k1.|It was a wet spring day. A tiny mouse called $a was on $a.his way home when $a.he $k1.} {"Help!" $a.he squeaked, as loud as $a.he could, but that was not very loud.|$a.He squeaked and squeaked, but $a.his voice was so small that nobody heard.}

{Only $b the $b.sp pricked up $b.his ears.|Luckily, a~ $b.sp named $b had very good ears.} {$b $h1.|$b did not wait. $b.He $h1.} {Soon $a was safe on dry ground, shaking the water from $a.his whiskers.|In a moment $a stood on the grass, wet but safe.} {"Thank you!" said $a. "One day I will help you, too."|"I will not forget this," said $a. "If you ever need me, just call."} {$b smiled. "You are kind, but what could a mouse do for me?"|$b tried not to laugh. "Run along home, little one, and get dry."}

{Summer came and went.|Weeks passed, and the days grew warm.} {Then one evening $a heard a sad sound from the field.|One night, as $a was eating supper, $a.he heard someone crying out.} {$a.He ran to look. It was $b, and $b.he $k2.|It was $b! $b.He $k2.} {The more $b pulled, the tighter the $ob became.|$b had pulled and kicked for hours, but the $ob only got tighter.}

{"Hold still," said $a.|"It's me, $a," said the mouse. "Stop pulling, and leave it to me."} {"It's no use," said $b. "It is much too strong."|"What can you do, when I could not break it?" asked $b.} {But $a had sharp teeth. $a.He $h2.|$a got to work. $a.He $h2.} {It took until the moon was high, but $b was free.|The stars came out before it was done, and then $b stood up and shook $b.his legs.}

{"I once asked what a mouse could do for me," said $b. "Now I know."|"You kept your word," said $b. "I am sorry I smiled at you."} {"You were kind to me when I was in trouble," said $a. "It was my turn."|"Big or small," said $a, "everyone can help someone."} {They walked home together in the moonlight, with the mouse riding between $b's ears.|From that night on, the two were the best of friends.|And ever since, $b has never said that anyone is too little.}
""", ["mouse", "$b.sp"] if r.random() < .7 else ["grateful mouse"])


@schema
def shiny_thing(r):
    a, b = cast(r, ["crow", "magpie"], BIRDS + ["mouse", "hedgehog"])
    o = r.choice([("silver button", "button", "an old man", "his good coat", "sew it back on"), ("small brass key", "key", "a little girl", "her music box", "wind it up again"), ("gold ring", "ring", "a grandmother", "her finger", "put it on"), ("tiny silver bell", "bell", "a boy", "his kitten's collar", "hang it back in its place")])
    v = dict(a=a, b=b, my={"button": "It came off my good coat", "key": "It is the key to my music box", "ring": "It must have slipped off my finger", "bell": "It fell off my kitten's collar"}[o[1]], o=o[0], s=o[1], who=o[2], Who=o[2][0].upper() + o[2][1:], it=o[3], act=o[4], p=o[2].split(" ", 1)[1], hs="her" if o[2] in ("a little girl", "a grandmother") else "him", sh="she" if o[2] in ("a little girl", "a grandmother") else "he", hp="her" if o[2] in ("a little girl", "a grandmother") else "his")
    return story(r, v, "{The $a.sp and the $o|$a and the Shiny Thing|Something Shiny|The $o}".replace("$o", o[0].title()), """
{$a the $a.sp loved everything that shone.|There was once a~ $a.sp called $a who could not fly past a shiny thing.|If it was bright, $a the $a.sp wanted it.} {$a.His nest was full of bits of glass and silver paper.|In $a.his nest there were bottle tops, a spoon, and three blue beads.} {One day $a.he saw the best thing yet: a $o, lying on a garden path.|Then, one bright morning, $a.he found a $o in the grass by a garden gate.} {$a.He picked it up and flew away with it.|Quick as a wink, it was in $a.his beak and on its way to the nest.}

{All day $a sat and looked at the $s.|How it shone! $a turned it this way and that way in the sun.} {"Come and see!" $a.he called, and $b the $b.sp came to look.|$a showed it to $b, a~ $b.sp who was $a.his neighbour.} {"It is lovely," said $b. "But does it not belong to someone?"|$b looked at it for a long time. "Somebody may be missing that," $b.he said.} {"I found it, so it is mine," said $a.|"Finders keepers!" said $a, and $a.he sat on it.}

{But the next day, $a flew over the garden again.|The next afternoon $a went back to see if there was anything else to find.} {There was $who, looking under every bush.|$Who was there, down on hands and knees, searching the path.} {"It must be here somewhere," $sh said sadly. "$my."|The $p looked ready to cry. "Where can it be?" $sh said. "$my."} {$a felt a strange little pain inside.|Suddenly the $s did not seem so bright to $a any more.}

{That night $a could not sleep. The $s felt cold and hard beneath $a.him.|$a went home and looked at the $s, but it made $a.him feel worse and worse.} {"What should I do?" $a.he asked $b. "You know already," said $b softly.|In the morning $a.he went to $b. "I think you were right," $a.he said. "Then you know what to do," said $b.|"It is not really mine, is it?" $a.he said to $b at sunrise. $b shook $b.his head. "No," $b.he said, "but you can still put it right."} {So $a took the $s in $a.his beak one last time, flew down to the garden, and laid it on the step.|$a flew to the house with the $s, dropped it on the window sill with a clink, and hid in a tree.}

{The door opened. "My $s!" cried the $p.|Soon the $p came out and saw it. "Oh, there it is!" $sh said, laughing with joy.} {How quickly $sh hurried in to $act!|At once $sh ran off to $act.} {Then $sh came back and put a handful of {nuts|corn|cake crumbs} on the wall. "Thank you, whoever you are," $sh said.|"Was it you?" $sh said, looking up at the tree, and $sh put down some bread for $a.} {$a shared the meal with $b.|$a and $b ate every bit together.} {"The $s was bright," said $a, "but that smile was brighter."|From then on, when $a found something shiny, $a.he first looked around to see who might have lost it.}
""", ["$a.sp", "$o"] if r.random() < .6 else ["$a.sp", "shiny thing"])


@schema
def fox_kindness(r):
    a, = cast(r, "fox")
    b, c = cast(r, ["hen", "goose", "duck"], ["donkey", "dog", "goat"])
    while len({a.n[0], b.n[0], c.n[0]}) < 3:
        b, c = cast(r, ["hen", "goose", "duck"], ["donkey", "dog", "goat"])
    food = r.choice(["corn cakes", "carrot cake", "apple pie", "potato pancakes", "plum buns"])
    v = dict(a=a, b=b, c=c, food=food, prize=r.choice(["eggs", "corn", "apples"]))
    return story(r, v, "{The Fox Who Came to Supper|A Plate for the Fox|$a the Sly Fox|The Fox and the $b.sp}", """
{$a the fox was sly, and nobody on the farm trusted $a.him.|"Watch out for $a the fox," the farm animals used to say. "$a.He takes whatever $a.he likes."} {One evening, $a.he made a plan to take the $prize from the shed.|One cold night $a.he crept up to the farm to steal $prize.} {"I will say that I am lost," $a.he thought, "and when they are asleep, I will fill my bag."|"I will pretend to have a sore foot," $a.he said to $a.himself. "They will let me in, and then I will help myself."}

{$a.He knocked at the shed, and $b the $b.sp opened the door.|$b the $b.sp heard a knock and looked out.} {"Poor me," said $a. "May I rest here for a little while?"|"Oh, please let me in," said $a in a weak voice.} {$c the $c.sp did not like it. "That is a fox," $c.he whispered. "It is a trick."|Behind $b.him, $c the $c.sp shook $c.his head. "Don't do it, $b. It must be a trick."} {"Maybe," said $b. "But maybe nobody has ever been nice to $a.him."|"It may be a trick," said $b, "and it may not. Everyone gets cold."}

{So $b gave $a the seat by the stove and a big plate of $food.|$b put a blanket around $a and brought out some $food.} {$a had not planned for this.|This was not what $a had expected at all.} {The $food tasted wonderful. "Have some more," said $b.|$a ate, and $b filled the plate again.} {Then they sat and talked about the stars, and $b asked $a about life in the wood.|Then $b taught $a.him a song, and even $c joined in, a little out of tune.} {No one had ever asked $a.him to stay for supper before.|It was a long time since anybody had talked to $a like a friend.}

{Late at night, when all was dark, $a got up with $a.his bag.|When the others were asleep, $a took out $a.his bag and tiptoed to the $prize.} {$a.He put out a paw, and then $a.he stopped.|$a.He looked at the $prize. Then $a.he looked at $b, asleep in the straw.} {"I can't," $a.he whispered. "Not from a friend."|"How can I steal from someone who gave me supper?" $a.he thought.} {$a.He folded up the empty bag and left it on the floor.|So instead $a.he swept the floor, filled the wood box, and slipped away.}

{In the morning $c woke up and ran to look at the $prize. Nothing was missing.|"The $prize!" cried $c at sunrise. But everything was there.} {And on the step lay a bunch of wild flowers.|By the door somebody had left a heap of ripe blackberries on a leaf.} {"I was wrong," said $c.|"Well!" said $c. "You tricked the trickster, $b."} {"I only gave $a.him supper," said $b.|$b laughed. "It was not a trick. I was just being kind."} {After that, $a came every week, by the front door, and always stayed for supper.|From then on there was one more plate on the table, and nothing was ever stolen from that farm again.}
""", ["fox", "$b.sp"] if r.random() < .7 else ["sly fox", "kindness"])


@schema
def forgot_nuts(r):
    a, b = cast(r, "squirrel", ["mole", "mouse", "robin", "hedgehog", "rabbit"])
    end = r.choice(["tree", "help", "map"])
    v = dict(a=a, b=b, nut=r.choice(["acorns", "hazelnuts", "walnuts", "beechnuts"]))
    v["one"] = v["nut"][:-1]
    endt = {"tree": """
{They looked under stones and behind the shed, and they did find a few.|Together they dug in nine places and found enough for supper.} {$b shared $b.his own food as well, and so $a got through the cold days.|"It will do," said $b, "and I have some $b.food if you get hungry."} {Then spring came. All over the meadow, tiny green trees were coming up.|When it was spring, $a saw little green shoots in the grass, one here, one there, one by the wall.} {"My $nut!" cried $a. "They are growing!"|"So that is where I put them!" said $a, and $a.he laughed.} {"You planted a whole wood," said $b.|"You did not lose them," said $b. "You planted them."} {Years later there was shade where there had been none, and young squirrels played there.|$a never dug those up. "One day," $a.he said, "there will be nuts here for everyone."}
""", "help": """
{$b thought for a moment. "What did you smell when you hid them?" $b.he asked.|"Close your eyes," said $b. "What did you hear when you were digging?"} {"Mint," said $a slowly. "And I heard water."|"I remember wet grass," said $a, "and the sound of the stream."} {"Then we must look by the stream," said $b.|"There is only one place like that!" said $b, and they ran to the stream.} {There, under a flat stone in the mint, lay a heap of $nut.|They dug beneath the first bush, and out rolled the $nut, one after another.} {$a danced for joy and gave half of them to $b.|"Half of these are yours," said $a.} {The next autumn, $a hid everything with $b beside $a.him. Two heads remember better than one.|And when $a hid nuts again, $a.he always put a white pebble on top.}
""", "map": """
{"Let us start at your door and walk just the way you walked that day," said $b.|"Do not look for nuts," said $b. "Look for your own footprints."} {They went slowly, step by step. By the broken fence, $a stopped. "Here! I sat here and ate one!"|At the old gate $a.he said, "Wait. I jumped over this!" And at the big root $a.he said, "I rested here!"} {Just behind it the earth was soft. They dug, and there were the $nut.|They scratched away the leaves, and underneath they found the whole store.} {"Next year," said $b, "we will draw a map."|$b took a piece of bark and scratched some lines on it. "This is a map," $b.he said. "Now you can forget as much as you like."} {And so they did. $a keeps the map above $a.his bed, and $a.he has never gone hungry since.|$a hung the bark on the wall, and every morning $a.he looks at it and smiles.}
"""}[end]
    return story(r, v, "{The Squirrel Who Forgot|$a Forgets|Where Are My Nuts?|The Hidden $nut}".replace("$nut", v["nut"].title()), """
{$a the squirrel was quick at everything except remembering.|$a was a squirrel who was always in a hurry.|All autumn long, $a the squirrel ran up and down the trees.} {In the autumn $a.he gathered more $nut than anyone else.|$a.He found heaps of $nut and hid them in the very best places.} {"Here is a good spot," $a.he would say, and dig, and pat the earth, and run on.|$a.He dug and covered, dug and covered, and never once looked back.} {"Will you remember where they are?" asked $b the $b.sp. "Of course!" said $a, already running off.|$b, a~ $b.sp who lived nearby, watched $a.him. "Shouldn't you make a mark?" $b.he asked. "No need," said $a. "I never forget a~ $one."|"How will you find them again?" asked $a.his neighbour $b, a~ $b.sp. "Easily," said $a. "I have a very good memory."}

{Then it turned cold, and $a was hungry.|One frosty morning, $a woke up and wanted breakfast.} {$a.He went to the first place and dug. There was nothing there.|"Under the oak," $a.he said, and $a.he dug under the oak. It was the wrong oak.} {$a.He tried a bush, a bank and a hollow stump.|By noon there were holes all over the wood, and every one of them was empty.} {"Oh no," said $a. "I have forgotten them all!"|$a sat down in the last hole and put $a.his tail over $a.his eyes.}

{$b came by and saw all the holes.|Along came $b.} {"Did you lose something?" $b.he asked kindly.|"I think I know what happened," $b.he said, but $b.he did not scold.} {"Don't be sad. We will look together."|"Come, let me help you."}
""" + endt, ["squirrel", "lost nuts"] if r.random() < .5 else ["forgetful squirrel"])


@schema
def turtle_gift(r):
    a, b = cast(r, "turtle", ["duck", "frog", "rabbit", "otter", "beaver"])
    gift = r.choice([("a blue flower from the far side of the hill", "flower", "seeds"), ("a jar of honey from the old bee tree", "honey", ""), ("a smooth white stone from the river", "stone", "")])
    late = r.choice(["a day late", "two days late", "nearly a week late"])
    v = dict(a=a, b=b, gift=gift[0], g=gift[1], late=late)
    mid = {"flower": "{By the time $a.he was back, the petals had dropped, and only a brown seed head was left.|The sun was hot, and on the way home the flower dried up until there was only a seed pod on the stem.}",
           "honey": "{On the way $a.he met an ant with a sore throat and gave it a taste. Then $a.he met a tired bee, and a hungry beetle. By the end, the jar was only half full.|The road was long, and $a met so many hungry little creatures on it that only half of the honey was left.}",
           "stone": "{On the way the stone slipped and rolled all the way back down the bank. $a had to go back and fetch it, not once but twice.|The stone was heavy, and $a.he had to push it with $a.his nose, inch by inch.}"}[gift[1]]
    ends = {"flower": "{\"But look,\" said $b, \"it is full of seeds!\" They planted them together, and the next summer there were flowers all around the pond.|$b shook it, and a dozen seeds fell out. \"You have brought me a whole garden,\" $b.he said, and the next spring it was true.}",
            "honey": "{Just then an ant, a bee and a beetle came up the path. \"We came to thank the kind turtle,\" they said, and so there was a second party, with songs and dancing.|\"Half a jar and a good story,\" said $b. \"Tell me about everyone you met.\" And they talked until the stars came out.}",
            "stone": "{The stone had been rolled so far that it shone like the moon. \"It is the most beautiful one I have ever seen,\" said $b.|$b put the stone in the middle of the garden, where everyone could see it. \"It came a long way to be here,\" $b.he told everyone who came by.}"}[gift[1]]
    return story(r, v, "{The Turtle's Slow Gift|$a's Present|A Late Birthday Gift|The Long Way to a Present}", """
{It was nearly $b's birthday, and everyone at the pond was thinking of presents.|$b the $b.sp was going to have a birthday party by the pond.|In one week it would be $b's birthday.} {$a the turtle wanted to bring something special.|$a, an old turtle, was $b's best friend, and $a.he wanted to find the best gift of all.} {"I will bring $gift," $a.he said.|$a.He thought and thought, and then $a.he knew: it had to be $gift.} {"That is so far!" said the others. "You will never be back in time."|It was a long way for short legs, but $a set out the same day.}

{$a walked all day, past the mill and over the bridge.|On and on went $a, one slow step at a time.} {It rained, and $a.he pulled in $a.his head and waited until it stopped.|At night $a.he slept in $a.his shell, and in the morning $a.he went on.} {At last $a.he found what $a.he was looking for and turned toward home.|After three days $a.he got there. "Now for the way back," $a.he said.} """ + mid + """

{Meanwhile the party came, and the party went.|Back at the pond, $b blew out the candles and ate the cake with the others.} {There was one empty place at the table, and $b kept looking at it.|$b laughed and played, but again and again $b.he looked down the path.} {"Where is $a?" $b.he asked. Nobody knew.|"I hope $a is all right," $b.he said.}

{$a came home $late, dusty and very tired.|It was $late when $a came slowly up the path.} {The lanterns were gone, and the cake was eaten.|The table was bare and the guests had all left.} {"I am sorry," said $a. "I was too slow. And the present is not what it was."|$a held out the gift and looked at the ground. "I missed it," $a.he said. "I am so sorry."}

{But $b ran to meet $a.|$b's face lit up.} {"You went all that way for me?" $b.he said.|"You are here!" said $b. "That is what I was wishing for."} """ + ends + """ {"Nobody else gave me a whole week," said $b.|$b had saved one slice of cake after all, and they shared it.} {A gift does not have to be quick to be good.|And $a thought that, on the whole, slow was a fine way to be.}
""", ["turtle", "birthday present"] if r.random() < .6 else ["turtle", "$b.sp"])


@schema
def spider_web(r):
    a, = cast(r, "spider")
    b, = cast(r, ["bee", "ladybug", "beetle", "cricket"])
    while b.n[0] == a.n[0]:
        b, = cast(r, ["bee", "ladybug", "beetle", "cricket"])
    brk = r.choice(["The wind shook the {gate|bush|fence}, and the web tore right down the middle.", "A big drop of rain fell through the web, and then another, and soon it was only a few loose threads.", "A cow walked past, swished her tail, and took the whole web with her."])
    v = dict(a=a, b=b, place=r.choice(["garden gate", "rose bush", "blackberry hedge", "old bicycle", "pump handle"]))
    brk = brk.replace("{gate|bush|fence}", v["place"])
    return story(r, v, "{The Broken Web|$a Tries Again|$a the Spider|One More Thread}", """
{$a the spider spun the finest webs in the garden.|There was once a small brown spider called $a, who lived on the $place.|$a was a young spider, and $a.he was about to make $a.his very first big web.} {One summer morning $a.he spun a new one across the $place.|All through one night $a.he worked, round and round, on the $place.} {When the sun came up, there was a dew drop on every thread.|At sunrise it was finished, and it shone like silver.} {"It is perfect," said $a.|$a sat in the middle and felt very proud.}

%s {$a held on to the last thread and looked at what was left.|All that work was gone in one moment.} {"Never mind," $a.he said, and $a.he started again.|$a took a deep breath and began a second web.} {But $a.he was in such a hurry that the threads were loose, and before noon that one fell down as well.|But the second web was made in a temper, and it came out all crooked, and it broke.} {"I give up!" cried $a, and $a.he hid beneath a big leaf.|$a crept under a leaf. "I shall never make another web," $a.he said.}

{A~ $b.sp named $b was resting on the same leaf.|Under the leaf sat $b the $b.sp, out of the heat.} {"I saw your web this morning," said $b. "I came a long way round just to look at it."|"Was that your web?" asked $b. "I thought it was the prettiest thing in the garden."} {"It's gone," said $a.|"Now it is nothing," said $a in a sad voice.} {"But you still know how to make it," said $b. "Nobody can break that."|"The web is gone," said $b, "but the one who made it is still here."}

{$a thought about this.|$a was silent for a while.} {"Where was the web weakest?" asked $b. "At the corners," said $a. "I could use two threads there." And $a.his eyes began to shine.|"What would you do another way this time?" $b asked. "I would choose a place out of the way," said $a slowly, "and I would not rush."} {So in the cool of the evening $a began again, thread by thread.|That evening, $a set to work for the third time, and $b sat by to keep $a.him company.} {$a.He did not hurry. $a.He tested each line with one foot before $a.he went on.|When a thread did not hold, $a.he took it out and made it over.}

{In the night there was wind, and a little rain, but the new web only swayed.|The next day was windy. The web swung to and fro, and it held.} {In the morning, all the bugs in the garden came to admire it from a safe place.|It was stronger than the first one, and even more beautiful.} {"Third time lucky," said $b. "No," said $a, "third time careful."|"Thank you," said $a to $b. "You put me back together before I put the web together."} {And whenever something broke after that, $a sighed once, and then looked for the first thread.|$a learned that day that it is all right to rest when you are sad, as long as you get up again.}
""" % brk, ["spider", "broken web"] if r.random() < .6 else ["spider"])


@schema
def duckling_swim(r):
    d, = cast(r, "duckling")
    m, = cast(r, ["frog", "turtle", "newt"])
    while m.n[0] == d.n[0]:
        m, = cast(r, ["frog", "turtle", "newt"])
    num = r.choice(["four", "five", "six", "seven"])
    v = dict(d=d, m=m, num=num)
    end = r.choice(["""
{Then $m had an idea. "Don't jump," $m.he said. "Just stand in the shallow part, where you can see your feet."|"Who says you must jump?" said $m. "You can walk in."} {$d put in one foot. It was not so cold.|So $d put one toe into the water, then a foot, then two.} {"One more step," said $m, and $d took one more. The water tickled $d.his tummy.|Each time $d said, "That is enough," $m waited, and after a while $d took one more step by $d.himself.} {And then there was no ground, and $d.he was floating!|All of a sudden $d's feet came off the ground, and $d.he did not sink at all.}
""", """
{Just then a gust of wind blew a little leaf boat past, and on it sat a ladybug, crying for help.|At that moment a tiny ladybug fell off a reed. It splashed and kicked in the water.} {"I can't reach it!" called $m from a stone.|$m was on the wrong side of the pond, much too far away.} {$d forgot to be afraid. In $d.he went, splash!|$d did not stop to think. $d.He ran down the bank and into the pond.} {$d.His feet knew what to do. They paddled and paddled until the ladybug could climb up on $d.his back.|$d.He paddled with both feet, and soon the ladybug was sitting safely on $d.his head.} {"You are swimming!" cried $m.|Only then did $d look down. "I'm swimming!" $d.he gasped.}
"""])
    return story(r, v, "{$d Learns to Swim|The Duckling Who Was Afraid of Water|The Last Duckling|Into the Pond}", """
{$num_c ducklings stood in a row at the edge of the pond.|One spring morning, Mother Duck led her $num ducklings down to the pond.|It was a big day for Mother Duck's $num ducklings. It was the day of their first swim.} {"In you go!" said Mother Duck.|"Follow me," said Mother Duck, and she slid into the water.} {Plop, plop, plop! In they went, one after another, all but the last.|All of them jumped in with a splash, except one.} {The last one was $d.|$d stayed on the bank and would not move.} {"The water is too big," $d.he said.|"What if I sink?" $d.he asked in a small voice.}

{"Ducks don't sink," said $d.his brother.|"It's easy!" called $d.his sisters.} {They showed $d.him how to kick, and how to turn, and how to shake a tail.|They swam in circles to show $d.him how, but it only made $d.him dizzy.} {Mother Duck did not push. "When you are ready," she said.|"Take your time," said Mother Duck. "The pond will still be here tomorrow."} {The next day it was the same. $d ran down to the edge, looked in, and ran back up again.|The following day $d.he came to the edge, counted to three, and stayed where $d.he was.}

{A~ $m.sp named $m sat nearby and watched.|On the third day, $m the $m.sp looked out of the weeds.} {"I was afraid too, once," said $m. "I was afraid of dry land."|"Do you know," said $m, "I used to be afraid of the dark at the bottom?"} {"What did you do?" asked $d. "I went a tiny bit at a time," said $m.|$d came a little closer. "And now?" "I still feel it now and then," said $m, "but I go anyway, and then the fear gets small."}
""".replace("$num_c", num.capitalize()) + end + """
{"Look at me!" $d shouted. "Look at me!"|$d swam in a circle. Then $d.he swam in a bigger one.} {Mother Duck came gliding over. "I knew you would," she said.|All $d.his brothers and sisters cheered and splashed.} {That evening $d was the last one to come out of the pond, because $d.he did not want to stop.|"May I swim again tomorrow?" $d asked at bedtime, and then $d.he was asleep before $d.he heard the answer.} {And the following spring, when another little duckling stood shaking on the bank, it was $d who said, "Just one toe first."|Being brave, $d found out, does not mean that you are not afraid. It means that you try.}
""", ["duckling"] if r.random() < .5 else ["duckling", "pond"])


@schema
def whale_fish(r):
    a, b = cast(r, "whale", ["small fish"])
    a.sp, b.sp = "whale", "fish"
    v = dict(a=a, b=b, col=r.choice(["silver", "yellow", "blue", "striped"]))
    mid = r.choice(["""
{One day $a swam after a cloud of tiny shrimp and came too close to the shore.|Then one day the tide went out quickly, and $a found $a.himself in a bay with only one way out.} {All around were rocks, and $a.he was too big to turn and look.|The water was getting low, and the way back was narrow and full of rocks.} {"I am stuck," said $a. "I can't see the way." "But I can," said $b. "I am small enough to look everywhere."|$a.He pushed to one side and bumped a rock. $a.He pushed to the other and bumped another. "Wait," said $b. "Let me go and look."} {$b swam between the rocks and found the deep channel.|In and out of the rocks $b darted, until $b.he found a place where the water was deep.} {"This way! A little left! Now straight on!" $b.he called.|Then $b.he swam just in front of $a's eye and led $a.him along, turn by turn.} {Soon the open sea lay before them, wide and blue.|With one last push, $a was free.}
""", """
{One day $a stopped singing. Something was itching behind $a.his fin, and it would not stop.|Then $a had a bad week. A prickly piece of driftwood had got stuck under $a.his fin.} {$a.He rolled, $a.he jumped, $a.he splashed, but it was no use.|$a.He rubbed against the sand at the bottom of the sea, but it only itched more.} {"I can't reach it," $a.he groaned.|"All this size," said $a, "and I can't scratch my own side!"} {"Lift your fin," said $b, "and let me in."|"I can get in there," said $b. "I can get in anywhere."} {$b swam into the small, dark place and pulled and wiggled.|$b slipped under the great fin and tugged with all $b.his might.} {Out came a bit of wood, no bigger than a spoon.|Pop! Out it came, and it floated away.}
"""])
    return story(r, v, "{The Whale and the Little Fish|$a and $b|Big Friend, Small Friend|The Small Fish's Big Day}", """
{Far out in the sea lived a whale named $a.|$a was a whale, as long as a street and as gentle as a lamb.|There was once a great grey whale called $a.} {$a.He was so big that the other animals kept away.|When $a.he swam by, all the small creatures hid, because $a.he was so very large.} {$a sang long, slow songs, and no one sang back.|"I wish somebody would play with me," $a often said.}

{One morning a little $col fish did not swim away.|One day a $col fish, no longer than a finger, stopped right in front of $a.him.} {"Hello," $b.he said. "I'm $b. Was that you singing?"|"I am $b," said the fish. "I like your song. Will you sing it again?"} {$a was so surprised that $a.he blew a fountain of water into the air.|"You are not afraid of me?" asked $a.} {"Should I be?" asked $b. "You have kind eyes."|"No," said $b. "You are only big. That is not the same as bad."} {From then on they swam together, and $b rode in the still water beside $a's head.|After that they met every day. $a told $b about the cold seas in the north, and $b told $a all the news of the reef.}

{The other fish laughed. "What can you do for a whale?" they asked $b.|"A whale doesn't need a friend like you," a passing crab told $b. $b did not know what to say.} {$b wondered if it was true.|It made $b feel even smaller than before.}
""" + mid + """
{"Thank you," said $a. "No one but you could have done that."|"You are the best friend a whale could have," said $a.} {$b's heart felt as big as the sea.|$b blew a row of happy bubbles.} {When the others heard about it, they were full of wonder. Some of them even came to listen to the songs.|The news went all around the reef, and soon the other fish came out to play as well.} {Now, when the whale sings in the evening, a very small voice sings along.|A friend does not have to be your size, only on your side.}
""", ["whale", "small fish"] if r.random() < .7 else ["whale"])


@schema
def dog_wrong_house(r):
    a, b = cast(r, "dog", ["cat"])
    n1, n2 = r.sample(["Baker", "Miller", "Green", "Potter", "Wood", "Carter"], 2)
    v = dict(a=a, b=b, n1=n1, n2=n2, col=r.choice(["red", "green", "blue", "yellow"]))
    mid = r.choice(["""
{In the middle of the night, $a heard a strange sound inside. Drip, drip, drip.|Around midnight $a's nose began to twitch. Something smelled wet.} {Water was running out under the door!|A pipe had burst, and there was a puddle on the step.} {"Woof! Woof!" barked $a, louder than ever before.|$a barked and barked and would not stop.} {A window opened, and Mrs. $n2 looked out. "What is it? Oh, my kitchen!" she cried.|Soon a light went on. Mrs. $n2 came down in her slippers, and her mouth fell open.} {She turned off the water just in time.|She ran to turn off the tap, and only the mat was spoiled.}
""", """
{In the night the wind got up, and the little gate of the hen house blew open. Out came three hens, one behind the other.|Late at night a latch came loose, and Mrs. $n2's three hens walked out into the lane.} {$a did not bark at them. $a.He walked around them, this way and that, until they were all in a bunch.|"Back you go," said $a, and $a.he trotted round and round them until they turned.} {One by one, $a.he brought them home, and $a.he lay down in front of the gate so that it stayed shut.|Then $a.he led them back into the yard and sat against the gate until morning.} {At sunrise Mrs. $n2 found them there. "Who are you?" she said. "You have saved my hens!"|When Mrs. $n2 came out with the corn, she clapped her hands. "What a good dog!" she said. "But you are not mine."}
"""])
    return story(r, v, "{The Dog Who Guarded the Wrong House|$a on Guard|The Wrong House|A Good Night's Work}", """
{$a was a new dog on Lime Lane.|The $n1 family had a new dog, and his or her name was $a.|On $a's very first day with the $n1 family, $a.he was given a big job.} {"You will guard our house tonight," said Mr. $n1. "It is the one with the $col door." Then the whole family drove off to see a friend.|"Guard the house with the $col door," Mr. $n1 told $a.him, and then the family drove off to visit Grandma.} {$a wagged $a.his tail. $a.He would be the best guard dog in the world.|$a was very proud, and $a.he took a good long walk around the block first.} {But there were two houses with a $col door, and dogs are not good at numbers.|But it was getting dark, and on the same lane there was another $col door, right at the corner.}

{$a lay down on the step of the first one $a.he came to.|$a picked the house at the corner, sat up straight and began to guard.} {$b the cat walked along the wall and looked down.|A cat named $b was sitting on the fence.} {"What are you doing here?" asked $b. "I am guarding my house," said $a.|"Good evening," said $b. "Do you live here?" "I do now," said $a. "And nobody gets past me."} {$b smiled a little. "That is Mrs. $n2's house," $b.he said. "Yours is over there."|"This is where old Mrs. $n2 lives," said $b, "not the $n1 family."} {$a did not believe it. Cats like to tease.|"Ha," said $a. "You can't fool me." And $a.he did not move.}
""".replace("his or her name was", a.his + " name was") + mid + """
{Then a car stopped, and the $n1 family jumped out. "There you are, $a!" they called.|Just then the $n1 children came running down the lane. "$a! We looked for you everywhere!" they cried.} {$a looked at one $col door and then at the other, and $a.his ears went down. "Oh," $a.he thought. "The cat was right."|$a felt very silly. $a.He had guarded the wrong house all night long.} {But Mrs. $n2 told them what had happened, and Mr. $n1 laughed and patted $a's head.|"Don't scold $a.him," said Mrs. $n2, and she told them the whole story.} {"It was the wrong house," said Mr. $n1, "but it was the right thing to do."|"Then it was lucky that $a made a mistake," said Mr. $n1.}

{After that, Mrs. $n2 put a big bone on the step every Sunday.|Mrs. $n2 tied a ribbon to $a's own door, so that $a.he could always tell which was which.} {And $a told $b, "I am sorry I did not believe you." From then on, they guarded the whole lane together.|$a guards both houses now, and $b shows $a.him the way home.}
""", ["dog", "wrong house"] if r.random() < .6 else ["guard dog", "cat"])


@schema
def cat_rain(r):
    a, b = cast(r, "cat", ["kitten", "puppy", "duckling", "chick"])
    kid = r.choice(["Anna", "Peter", "Emma", "David", "Lucy", "Simon"])
    while kid[0] in (a.n[0], b.n[0]):
        kid = r.choice(["Anna", "Peter", "Emma", "David", "Lucy", "Simon"])
    girl = kid in ("Anna", "Emma", "Lucy")
    v = dict(a=a, b=b, kid=kid, kh="she" if girl else "he", khis="her" if girl else "his", place=r.choice(["under the wheelbarrow", "beneath the garden bench", "behind the water barrel", "under the currant bush"]))
    return story(r, v, "{The Cat Who Was Afraid of Rain|$a and the Rain|A Wet Night|Only Water}", """
{$a the cat was afraid of nothing but rain.|$a was a brave cat. Big dogs did not worry $a.him, and neither did loud trucks. But $a.he could not bear rain.|There was only one thing in the world that $a the cat did not like, and that was rain.} {At the first drop $a.he ran under the bed.|When clouds came, $a.he hid in the laundry basket with only $a.his tail sticking out.} {"It is only water," said $kid, who lived with $a.him.|$kid, who loved $a.him very much, tried to help. "Rain can't hurt you," $kh said.} {$kid tried holding $a up to the window to watch the drops, but $a jumped down and ran.|$kid even made a tiny hat from a paper bag. $a sat on it.}

{One evening it rained very hard.|Then there came a night of rain. It drummed on the roof and ran down the glass.} {From under the bed, $a heard something outside.|$a was hiding as usual when $a.he heard a tiny cry.} {It was the voice of $b, the $b.sp from next door.|$a knew that voice. It was little $b, the neighbour's $b.sp.} {"Help! I'm cold, and I can't find my way home!"|"Is anybody there?" called the voice. "I want to go home!"} {$a waited for someone else to go. But $kid was asleep, and nobody came.|$a looked at $kid, but $kh was fast asleep.}

{$a put one paw out of the cat door and pulled it back.|$a went as far as the cat door. A drop fell on $a.his nose, and $a.he shivered.} {Then $a.he heard the cry again, and it was weaker.|"Please," said the small voice.} {$a shut $a.his eyes, took a deep breath and ran out.|"It is only water," $a told $a.himself. "It is only water." And out $a.he went.} {The rain was cold and wet, but it did not hurt at all.|Rain ran over $a.his ears and down $a.his back, and to $a.his surprise nothing terrible happened.} {$a looked by the shed and along the wall, and there, $place, sat $b.|$a.He followed the sound through the puddles and found $b $place.}

{"Stay close to me," said $a. $b pressed against $a.his side, and together they went through the rain.|"Come under me," said $a, "and walk when I walk." So $b stayed quite dry, with a cat for an umbrella.} {Soon $b was back home and warm again.|$a took $b to the right door and called until a light came on.} {"You are the bravest cat in the world," said $b.|"Weren't you afraid?" asked $b. "Yes," said $a. "But you were more afraid than I was."}

{In the morning $kid found a very wet cat on the kitchen mat.|$a came home dripping, and $kid woke up and rubbed $a.him dry with $khis own towel.} {"You went out in the rain!" said $kid.|"Look at you!" said $kid. "What made you do that?"} {$a only purred.|$a could not tell the story, but $a.he looked very pleased.} {$a still does not like rain. But now, when it falls, $a.he sits at the window and listens, in case somebody needs $a.him.|Since that night, $a has not hidden from the rain. $a.He even steps in a puddle now and then, just to show that $a.he can.}
""", ["cat", "rain"] if r.random() < .6 else ["cat who was afraid of rain"])


@schema
def owl_advice(r):
    o, a, b = cast(r, "owl", ["rabbit", "hedgehog", "mouse", "squirrel"], ["badger", "mole", "raccoon"])
    k = r.choice([
        dict(prob="always late", plea="I am late for everything", adv="Begin with the end", wrong="ate supper in the morning, put on a nightcap at noon, and went to bed when everyone else was at lunch", mean="think first about where you have to be at the end, and then you will know when to start", good="thought about when {he} had to arrive, and set out in good time", res="came to the picnic before all the others"),
        dict(prob="always losing things", plea="I lose everything I own", adv="Give everything a home", wrong="built a tiny house for a spoon, a tiny house for a sock, and a tiny house for each nut, until there was no room left to walk", mean="put each thing back in the same place, so that you know where to look", good="hung the spoon on a hook and put the nuts in one basket", res="did not lose a single thing all week"),
        dict(prob="always tired", plea="I am tired from morning to night", adv="Carry only what you need", wrong="went out with nothing at all, no lunch, no scarf, no basket, and came home cold and hungry", mean="put down some of the jobs that nobody asked you to do", good="did two things that day and left the third one for the next day", res="still had the strength to dance in the evening"),
    ])
    v = dict(o=o, a=a, b=b, prob=k["prob"], plea=k["plea"], adv=k["adv"], wrong=k["wrong"], mean=k["mean"], good=k["good"].replace("{he}", a.he), res=k["res"])
    return story(r, v, "{The Owl's Advice|$a and the Wise Owl|What the Owl Meant|Ask Again}", """
{$a the $a.sp was $prob.|There was a~ $a.sp called $a who was $prob.|Everybody in the wood knew that $a the $a.sp was $prob.} {$a.He did not like it, but $a.he did not know how to change.|It made $a.him sad, and it made $a.his friends laugh.} {"Ask $o the owl," said $b the $b.sp. "Owls know things."|One day $b the $b.sp said, "Why don't you go to $o, the old owl?"}

{So in the evening $a went to the oak where $o lived.|That night $a climbed the hill to the owl's tree.} {"Please, $o," $a.he said, "$plea. What shall I do?"|"$o," $a.he called, "can you help me? $plea!"} {$o opened one eye. "$adv," $o.he said, and closed it again.|The owl turned $o.his head all the way around and thought. "$adv," $o.he said at last.} {"Thank you!" said $a, and $a.he ran home without asking anything more.|$a was so pleased that $a.he ran off at once. "$adv!" $a.he said to $a.himself, all the way home.}

{The next day $a did just what $a.he thought the owl had said. $a.He $wrong.|$a started first thing in the morning. $a.He $wrong.} {It did not help. It made everything worse.|By evening $a was in a bigger muddle than ever.} {"What are you doing?" asked $b, who had come to visit.|$b came by and scratched $b.his head. "Is this a game?" $b.he asked.} {"I am doing what the owl told me," said $a, and $a.his voice shook.|"It's good advice," said $a, close to tears, "but it doesn't work!"} {"Did you ask what it meant?" said $b. $a had not.|"Are you sure you understood it?" asked $b gently. $a had to say no.|"And what did the owl mean by it?" asked $b. $a opened $a.his mouth and closed it again.}

{They went back to the oak together.|So they both went up the hill, and $b held the lantern.} {When $o heard the story, $o.he did not laugh, though $o.his feathers shook a little.|$o listened to it all and looked sorry. "I said too little," said the owl, "and you ran too fast."} {"I meant this," said $o. "You should $mean."|"What I wanted to say," $o.he explained, "is that you should $mean."} {"Oh!" said $a. "That is much easier."|"Is that all?" asked $a. "I can do that!"}

{In the morning $a tried again. $a.He $good.|This time $a $good.} {And $a.he $res.|It worked so well that $a.he $res.} {"Good advice is only good if you understand it," said $b.|$a thanked the owl with a cake, and thanked $b with an even bigger one.} {From that time on, $a still asked for advice, but $a.he always asked one more question: "What do you mean?"|And $o learned something as well. Now $o.he uses a few more words.}
""".replace("You should you do", "You do"), ["owl", "$a.sp"] if r.random() < .6 else ["wise owl", "advice"])


@schema
def moving_house(r):
    a, b = cast(r, ["mouse", "hedgehog", "rabbit", "mole", "wren", "robin"], ["mouse", "squirrel", "rabbit", "toad", "finch"])
    old, why = r.choice([("an old boot by the barn", "the boot had a hole, and the rain came in"), ("a flower pot in the garden", "the flower pot had cracked in the frost"), ("a corner of the hay shed", "the hay was nearly all gone")])
    new = r.choice(["a dry hole under the apple tree", "a gap in the stone wall", "a cosy place under the hedge"])
    tre = r.choice(["a blue button", "a striped feather", "a walnut shell cup", "a round pebble"])
    v = dict(a=a, b=b, old=old, why=why, new=new, tre=tre, t=tre.split(" ", 1)[1])
    return story(r, v, "{$a Moves House|The New Home|A New Place for $a|Moving Day}", """
{$a the $a.sp had always lived in $old.|For as long as $a.he could remember, $a the $a.sp had lived in $old.} {$a.He knew every corner of it.|It was not big, but it was home.} {But now $why.|Then came a bad winter, and by spring $why.} {"We have to move," said $a's mother.|"It's time to find a new home," said $a's father one morning.} {"I don't want to," said $a.|$a shook $a.his head. "I like it here," $a.he said.}

{They packed everything: the moss, the bowls and the blankets.|Piece by piece they carried their things across the field.} {The new house was in $new.|After a long walk they came to $new. This was the place.} {It was warm and clean, but it smelled wrong.|It was bigger than the old one, and much too quiet.} {That night $a lay awake. The moon shone in from the wrong side.|At bedtime $a could not get to sleep. Even the wind sounded different.}

{The next morning $a went back to the old place to have another look.|As soon as it was light, $a ran back to the old home.} {It was cold and empty, and there was a puddle on the floor.|Without the beds and the bowls, it looked like nobody's house.} {In the corner $a found $tre that had been left behind.|But one small thing was still there: $tre. It had always been next to $a.his bed.} {$a.He held it tight and cried a little.|$a.He picked it up, and a tear ran down $a.his cheek.}

{On the way back $a.he met a~ $b.sp.|"Hello," said somebody behind $a.him. It was a~ $b.sp.} {"I'm $b," said $b.the. "I live right next door. Are you the new neighbour?"|"You must be the one who moved in yesterday," said $b.the. "My name is $b, and I live just around the corner."} {"Yes," said $a, "but it doesn't feel like home."|$a nodded. "Only I don't like it yet," $a.he said.} {"When we came here, I felt just the same," said $b. "Then I put my favourite thing in the window, and it helped."|$b thought about that. "A house needs something of yours in it," $b.he said. "What is that you are holding?"}

{Together they carried the $t home and {found just the right spot for it|put it where the morning sun would shine on it}.|So $a took the $t into the new house and set it down beside the bed.} {Then $b showed $a the best places: the brambles with the sweetest berries, the slide on the bank, and the warm stone.|After that, $b took $a to see the stream, the hollow log and the tree that was good for climbing.} {When $a came home for supper, the house smelled of soup.|In the evening $a's mother had lit the lamp, and the windows glowed.} {"Well," said $a, "it is starting to smell right."|$a looked at the $t and smiled. It looked as if it had always been there.} {That night $a fell asleep at once.|Home, $a thought, is not only where you were. It is also where somebody waits for you.}
""", ["$a.sp", "new home"] if r.random() < .6 else ["moving house", "$a.sp"])


@schema
def sick_friend(r):
    a, b, c = cast(r, ["rabbit", "mouse", "squirrel"], ["hedgehog", "mole", "badger"], ["fox", "raccoon", "chipmunk"])
    ill = r.choice([("a bad cold", "sneezed"), ("a sore throat", "croaked"), ("a tummy ache", "groaned")])
    v = dict(a=a, b=b, c=c, ill=ill[0], snd=ill[1], herb=r.choice(["mint tea", "hot apple juice", "rose hip tea", "warm honey water"]))
    return story(r, v, "{$b Is Sick|A Sick Friend|Get Well, $b|Quiet Company}", """
{Every day $a the $a.sp and $b the $b.sp played together by the stream.|$b the $b.sp never missed a game, so $a the $a.sp was surprised when $b.he did not come one morning.} {But on Monday $b did not come out.|$a waited by the stepping stones, but there was no sign of $b.} {$a went to look and found $b in bed with $ill.|So $a knocked at $b's door. "I have $ill," $b $snd.} {"You poor thing," said $a. "I will make you better!"|"Don't worry," said $a. "I know how to cheer you up."}

{On the way home $a met $c the $c.sp and told $c.him the news.|$a ran to fetch $c the $c.sp, and the two of them made a plan.} {"We must make $b laugh," said $c.|"A party!" said $c. "That will help."} {They came back with a drum and a whistle.|Before long they were back with balloons, a drum and a very large cake.} {They sang, they danced, and $c stood on $c.his head.|$c banged the drum while $a jumped up and down on the end of the bed.} {$b tried to smile, but $b.his head hurt.|$b pulled the blanket over $b.his ears.} {"You are so kind," $b.he said, "but I'm too tired for a party."|"Please," said $b in a weak voice, "could it be a little less loud?"}

{$a and $c stopped.|The drum went quiet.} {They looked at each other. They had thought about what they liked, not about what $b needed.|$a felt bad. "We never asked you what you wanted," $a.he said.} {"What would you like?" asked $c.|"What would help?" asked $a softly.} {"Something warm to drink," said $b, "and somebody to sit with me."|"Just a drink," said $b, "and maybe a story."}

{So $c made a cup of $herb, and $a sat down by the bed.|$c put the drum outside and cooked some $herb. $a shook the pillow and closed the curtain.} {$a told a long, slow story about a boat that sailed to the moon.|In a quiet voice, $a told $b about everything that was happening at the stream.} {$b drank, listened, and fell asleep.|Before the story was over, $b was sleeping peacefully.} {They took turns. When $a went home, $c stayed, and when $c was tired, $a came back.|All week, one of them was always there.}

{On Saturday, $b woke up and felt hungry.|After a few days $b sat up. "I feel fine!" $b.he said.} {"Is there anything to eat?" $b.he asked, and they all laughed.|"Now," $b.he said with a grin, "now I would like that party."} {And this time the drum was just right.|So they got out the drum again and danced until supper.} {$a had learned that the best way to help is to ask first.|Later, when $a was ill, nobody had to tell $b what to do. $b.He brought something warm, and $b.he sat down quietly.}
""", ["sick $b.sp", "$a.sp"] if r.random() < .6 else ["sick friend"])


@schema
def new_animal(r):
    a, b = cast(r, ["porcupine", "skunk", "hedgehog", "badger", "bat", "raccoon"], ["rabbit", "squirrel", "mouse", "chipmunk"])
    look = {"porcupine": "long, sharp quills", "skunk": "a big striped tail", "hedgehog": "prickles all over", "badger": "a striped face and long claws", "bat": "thin black wings", "raccoon": "a black mask around {e} eyes".replace("{e}", "both")}[a.sp]
    skill, use = {"porcupine": ("climb", "climbed up"), "skunk": ("dig", ""), "hedgehog": ("see well at dusk", ""), "badger": ("dig", ""), "bat": ("fly in the dark", ""), "raccoon": ("open things", "")}[a.sp]
    kite = a.sp in ("porcupine", "bat", "raccoon")
    v = dict(a=a, b=b, look=look, way={"porcupine": "climbed slowly up the trunk", "bat": "flew up into the branches", "raccoon": "climbed up as easily as if there were stairs"}.get(a.sp, ""))
    if kite:
        res = """
{One day the animals were playing with a ball made of straw, and it got stuck at the top of a tall tree.|A few days later $b's kite, a big yellow leaf on a string, flew into the tallest tree and stayed there.} {The branches were too thin for some, and the trunk was too smooth for others.|$b tried to get it, but it was too high, and it was getting dark.} {"I can get it," said a quiet voice. It was $a.|Then $a stepped out from behind a bush. "May I try?" $a.he asked.} {$a $way and brought it down without a scratch.|Everyone watched as $a $way. A moment later, the toy dropped into the grass.}
"""
        toy = True
    else:
        res = """
{One day $b was playing by the bank when the earth slid down and blocked the door of $b.his home.|A few days later, after heavy rain, a heap of earth slid down in front of $b's door.} {$b's little sister was inside! "I can't get out!" she called.|From inside came the voice of $b's baby brother. "It's dark in here!"} {Everyone scratched at the earth, but it was too much for them.|$b dug as fast as $b.he could, but more earth came down.} {"Let me try," said a quiet voice. It was $a.|Then $a came running. "I am good at digging," $a.he said.} {Dirt flew in all directions, and in no time there was a hole, and out came a dusty little nose.|$a dug and dug with strong front paws, and soon the way was clear.}
"""
    return story(r, v, "{The New Animal in the Wood|A Stranger in the Wood|$a Is New Here|Welcome, $a}", """
{One spring a new animal came to the wood.|"Have you heard?" said everyone. "There is somebody new in the wood!"|Nobody knew where the stranger had come from. One morning $a.he was simply there.} {It was a~ $a.sp called $a, with $look.|The stranger was a~ $a.sp with $look, and the name on the door was $a.} {Nobody there had ever seen such a creature before.|The other animals stared and whispered.} {"$a.He looks odd," said one.|"I don't think we should go too near," said another.}

{$a said good morning to everyone, but they only nodded and hurried on.|When $a came to the stream, the others all found that they had to be somewhere else.} {In the evening $a sat alone in front of $a.his door.|So $a ate alone, walked alone and played alone.} {$b the $b.sp saw it and felt a little sorry, but $b.he was afraid of what the others would say.|Only $b, a young $b.sp, stopped and waved. Then $b.his friends called, and $b.he ran off.}
""" + res + """
{"Thank you," said $b. Then $b.his face went red. "We were not very nice to you."|$b felt glad and ashamed at the same time. "You helped us," $b.he said, "and we did not even say hello."} {"You did not know me," said $a. "I was a bit afraid of you, too."|"It is hard to be new," said $a. "But it is not too late to say hello now."} {"Hello," said $b, and $b.he held out a paw.|So $b said it, loud and clear: "Hello, $a! Will you come and play?"}

{One by one, the others came forward and told $a their names.|Then everybody wanted to shake hands, and everybody talked at once.} {That night there was a welcome party under the big beech, and $a told stories about far-away places.|They brought berries and nuts to $a's door, and it was the first of many suppers.} {Some weeks later another stranger came over the hill. And who was the first to run and say hello? It was $b, with $a close behind.|"And to think," said $b later, "that we might never have found out how nice you are."}
""", ["new $a.sp", "$b.sp"] if r.random() < .5 else ["$a.sp", "$b.sp"])


@schema
def storm_shelter(r):
    a, b, c = cast(r, ["badger", "rabbit", "mole", "fox"], BIRDS, ["mouse", "squirrel", "chipmunk", "hedgehog"])
    v = dict(a=a, b=b, c=c)
    return story(r, v, "{The Big Storm|A Night of Wind|Room for One More|Shelter at $a's House}", """
{$a the $a.sp liked to live alone.|$a was a~ $a.sp who liked peace and quiet, and $a.he had a fine dry house under the ground.} {There was a sign on $a.his door that said, "Please do not knock."|$a.He had one chair, one cup and one bed, and that was how $a.he liked it.} {But one afternoon the sky turned dark.|Then came the day of the great storm.} {The wind shook the trees, and thunder rolled over the hills.|First came the wind, and then the rain, and then the thunder.}

{There was a knock. $b the $b.sp stood outside, soaked to the skin.|Somebody tapped at $a's door. It was $b, a~ $b.sp with wet feathers.} {"My nest has blown down," said $b. "May I come in?"|"I know you like to be alone," said $b, "but the wind has taken my nest!"} {$a frowned. Then thunder boomed again, and $b jumped.|$a was going to say no. Then $a.he saw that $b was trembling.} {"All right," said $a. "But only until it stops."|"Come in, then," said $a, "and wipe your feet."}

{No sooner was the door closed than there was another knock.|A minute later, somebody else was outside.} {This time it was $c the $c.sp, with {three tired children|two small babies in a basket}.|It was $c the $c.sp, and behind $c.him stood all $c.his family.} {"Our home is full of water," said $c.|"The water came in under our door," $c explained.} {$a looked at $a.his one chair and $a.his one bed and sighed.|$a counted heads and thought of $a.his nice, quiet evening.} {"There isn't much room," $a.he said, "but you can't stay out there."|But how could $a.he send them away? "In you come," $a.he said.}

{At first it was not easy. Somebody sat on $a's hat, and somebody spilled the soup.|It was crowded. There was a foot here and a tail there, and $a did not know where to sit.} {Then a loud clap of thunder made the little ones cry.|Then the lamp blew out, and the children began to sob.} {$a did not know what to do with crying children, so $a.he did the only thing $a.he could think of. $a.He began to sing. $b joined in with a soft whistle, and $c hummed along.|"Hush," said $a, and in the dark $a.he told them a story $a.his grandmother used to tell. $b came close to listen, and $c held the smallest one.|"Do you know the one about the bear and the bucket?" asked $a. It was a very funny story, and soon even $b and $c were laughing.} {Little by little the thunder seemed farther away.|After a while nobody was listening to the storm.}

{In the morning the sun came out, and everything dripped and sparkled.|When they woke up, the storm was over.} {All together they built up the nest and dried out $c's house.|$a helped $b to carry twigs, and then they all mopped $c's floor.} {Then $a went home. It was very quiet. It was a bit too quiet.|When $a was alone again, the house seemed strangely empty.} {So $a.he took down the sign and wrote a new one: "Please knock."|The next day $a made two more chairs, and hung a note on the door: "Come in and sit down."} {And they did.|That very evening, somebody knocked, and $a ran to open the door.}
""", ["storm", "$a.sp"] if r.random() < .6 else ["$a.sp", "$b.sp", "storm"])


@schema
def share_tree(r):
    a, b = cast(r, ["squirrel"], ["owl", "woodpecker", "crow", "magpie"])
    noise = {"owl": "hooted all night", "woodpecker": "hammered at the bark from early morning", "crow": "cawed at sunrise", "magpie": "chattered from dawn to dusk"}[b.sp]
    v = dict(a=a, b=b, noise=noise, tree=r.choice(["oak", "beech", "chestnut", "pine"]))
    mid = r.choice(["""
{Then one morning two men came with a saw. "This old $tree looks dead," said one of them.|One day a woodcutter stopped and looked up. "I don't think anything lives in this old tree," he said.} {$a and $b looked at each other.|For the first time, both of them were quiet.} {"Make a noise!" whispered $a. "Make all the noise you can!"|"Quick!" said $b. "You run, and I'll shout!"} {$b called at the top of $b.his voice, and $a ran up and down the trunk and waved $a.his tail.|So $a jumped from branch to branch, and $b flapped and cried.} {"Well, look at that," came the voice from below. "Somebody does live here. We will leave it alone."|A laugh came from below. "It is full of life! No, this tree must stay."}
""", """
{Then one night there was a strong wind, and the big branch in the middle cracked.|One stormy night, lightning lit the sky, and the top of the tree began to lean.} {$b's home was in danger, for everything was sliding down.|"My things!" cried $b. "They are falling!"} {$a did not stop to think. $a.He ran along the shaking branch and grabbed all that $a.he could.|At once $a was there. $a.He held on to $b's bed with all four feet until the wind died down.} {But then $a's own store of nuts began to roll out, and it was $b who spread both wings and stopped them.|When $a slipped, $b caught $a.him by the tail and pulled $a.him back.} {By sunrise they were both safe, and both very tired.|The wind dropped at last, and there they sat, side by side, on the same branch.}
"""])
    return story(r, v, "{Sharing a Tree|The Old $tree|$a and $b Share a Tree|Two in One Tree}".replace("$tree", v["tree"].title()), """
{In the middle of the wood stood an old $tree.|There was only one good tree on the hill, a tall old $tree.} {$a the squirrel lived in it and thought it was all $a.hers.|$a the squirrel had moved in last spring, and $a.he called it "my tree."} {Then $b the $b.sp moved into the top.|One day a~ $b.sp named $b came and settled in the upper branches.} {"This is my tree," said $a.|"Excuse me," said $a, "somebody already lives here."} {"It is big enough for ten," said $b.|"I see only half a tree being used," said $b.}

{They did not get along.|It did not go well.} {$b $noise, and $a could not sleep.|The trouble was that $b $noise.} {$a dropped nutshells everywhere, and some of them landed on $b's head.|As for $a, $a.he ran up and down the trunk all day and shook $b awake from every nap.} {They drew a line around the trunk with a piece of chalk. "Below is mine," said $a. "Above is mine," said $b.|They stopped speaking. When one came out, the other went in.} {But the nuts grew at the top, and the only cool shade was at the bottom.|But soon $a needed twigs from above, and $b wanted moss from below, and neither would ask.}
""".replace("$a.hers", "$a.own") + mid + """
{"That was well done," said $a.|"We make a good team," said $a.|$a was the first to speak. "I could not have done that alone," $a.he said.} {"You are not so bad," said $b. "For a squirrel."|"I suppose it is our tree, then," said $b.|"Neither could anyone," said $b. "It takes two."} {Then they talked, for the first time, about how to live together.|That very day they sat down and made some rules.} {"I will keep quiet when you are asleep," said $b. "And I will throw my shells into a basket," said $a.|$b promised to make noise only at certain hours, and $a promised to use the back of the trunk.}

{It was not perfect, but it was much better.|Some days they still grumbled, but not for long.} {In the evenings they sat in the middle of the tree and watched the sun go down.|Now there is a little bench in the middle of the tree, just wide enough for two.} {A thing that is shared can feel twice as big.|And if you ask whose tree it is, both will answer, "Ours."}
""", ["squirrel", "$b.sp"] if r.random() < .6 else ["shared tree", "squirrel"])


@schema
def lie_found(r):
    a, b, c = cast(r, ["raccoon", "fox", "badger", "squirrel", "goat"], ["bear", "badger", "hedgehog", "hen"], ["mouse", "rabbit", "sparrow"])
    food, mark = r.choice([("blueberry pie", "a blue stain on {h} chin"), ("honey cake", "sticky crumbs all over {h} chest"), ("cherry tart", "red juice around {h} mouth"), ("jar of plum jam", "a spot of jam on the end of {h} nose")])
    v = dict(a=a, b=b, c=c, food=food, mark=mark.replace("{h}", a.his), ymark=mark.replace("{h}", "your"), f=food.split()[-1])
    return story(r, v, "{The Missing $food|Who Ate the $food?|$a Tells a Lie|The Truth About the $food}".replace("$food", food.replace("jar of ", "").title().replace(" Of ", " of ")), """
{$b the $b.sp had made a $food and put it on the window sill.|On Friday $b the $b.sp made a $food for the harvest supper.} {It smelled so good that everyone who passed by stopped to sniff.|"Tonight we will all share it," $b.he said, and went out to pick flowers for the table.} {$a the $a.sp came along, and $a.he was hungry.|Along came $a, a~ $a.sp with a sweet tooth.} {"Just one little taste," $a.he thought.|"Nobody will notice if I try a bit," $a.he said.} {But one taste became two, and two became ten, and then there was nothing left.|A little later, it was all gone.}

{When $b came back, $b.he stared at the empty dish.|$b came home and gave a cry. "Who has done this?"} {$a should have said, "It was me." But $a.he was afraid.|$a was still there, and $a.his heart beat fast.} {"I think I saw $c the $c.sp running away," $a.he said.|"It must have been $c," $a.he said quickly. "You know that $c.sp is always hungry."} {$b was surprised, but $b.he believed it.|$b shook $b.his head sadly. "I would never have thought it of $c," $b.he said.}

{So when $c came to the supper, nobody smiled at $c.him.|That evening $c came with a bunch of daisies, but no one wanted to sit with $c.him.} {"What have I done?" asked $c.|"Why is everyone cross with me?" asked $c.} {"You ate the $f," said $b.|"You know very well," said one of the guests. "Everyone knows who took the $food."} {"But I didn't!" said $c, and $c.his eyes filled with tears.|$c's lip shook. "I was at my grandmother's house all day," $c.he said.}

{$a looked at the floor. The stolen $f felt like a stone in $a.his tummy.|$a had a lump in $a.his throat. This was far worse than being scolded.} {Then a baby rabbit pointed. "Look! $a has $mark!"|"$a," said $b slowly, "is that $ymark?"} {Everyone turned to look, and it became very quiet.|Nobody said a word.} {$a could have told another lie, but $a.he was tired of lies.|Now $a could run away, or $a.he could tell the truth.} {"It was me," $a.he said. "I ate it, and then I blamed $c. I am so sorry."|"$c did nothing," said $a. "I did it, and I lied because I was scared."}

{$b was angry, and $b.he said so. "The $f can be made again," $b.he added, "but you hurt a friend."|"The eating was bad," said $b, "but the lie was worse."} {$a went to $c and said sorry once more, and meant it.|With a red face, $a asked $c to forgive $a.him.} {The next day $a.he worked from morning to night, picking fruit and washing pots, to help make a new one.|To make up for it, $a spent the whole next day helping $b in the kitchen.} {When it was ready, $a gave the first helping to $c and kept none for $a.himself.|$c got the first and biggest helping.} {"Thank you for telling the truth," said $c, and $c.he pushed half of it over to $a.|It took a while for the others to trust $a again, but little by little they did, because $a.he never told such a lie any more.}
""", ["$a.sp", "lie"] if r.random() < .5 else ["missing %s" % food] if "jar" not in food else ["$a.sp", "plum jam"])


@schema
def promise_kept(r):
    a, b = cast(r, ["dog", "donkey", "cat", "goat", "rabbit", "sheep"], ["hen", "quail", "lark", "duck", "goose"])
    b = Ch(r, b.sp, b.n if b.he == "she" else r.choice([n for n in FEMALE if n[0] != a.n[0]]), "f")
    fun = r.choice(["the summer fair", "the big picnic", "the lantern parade", "the boat race"])
    v = dict(a=a, b=b, fun=fun, n=r.choice(["three", "four", "five"]))
    return story(r, v, "{A Promise Kept|$a Keeps a Promise|$a and the Eggs|The Day of $F}".replace("$F", fun.title().replace("The ", "the ")), """
{$b the $b.sp had $n eggs in her nest.|In a quiet corner, $b the $b.sp was sitting on $n eggs.} {She kept them warm day and night.|She had not left them for many days.} {One morning she said to her friend $a the $a.sp, "My old mother is ill, and I must go to see her. Will you look after my eggs until sunset?"|Then she got a message: her sister needed her at once. She asked $a, a~ $a.sp who lived close by, to watch over the nest until sunset.} {"I will," said $a. "I promise."|"Go," said $a. "I promise I will not leave them."}

{When $b had gone, $a put dry grass over the eggs and sat down close beside them.|$a covered the eggs with soft down and lay down next to them.} {It was easy at first.|For an hour it was quite pleasant.} {Then $a heard music. It was the day of $fun!|But then a crowd came by on the way to $fun. $a had forgotten all about it.} {"Come with us!" called $a.his friends.|"Aren't you coming?" $a.his friends shouted. "It only comes once a year!"} {$a jumped up. $a.He had looked forward to it for weeks.|$a wanted to go so much that $a.his feet began to move.}

{"Eggs don't run away," said a friend. "You can leave them for a bit."|"Nobody will know," said one of the crowd. "You will be back before $b is."} {$a looked down the road, and then $a.he looked at the nest.|$a took three steps. Then $a.he turned around.} {"I gave my word," $a.he said, and $a.he sat down again.|"I can't," said $a. "I promised."} {The music grew faint, and $a felt like crying.|They went off without $a.him, and $a had to swallow hard.}

{In the afternoon clouds came up, and a cold wind began to blow.|Later the weather changed. Rain came down, cold as ice.} {If the eggs got cold, they would never hatch.|The wind blew the cover off, and the eggs lay bare.} {$a lay down around the nest and made a wall with $a.his own body.|Quickly, $a bent over the eggs and kept the rain off with $a.his own back.} {The rain ran down $a.his neck, but under $a.him it stayed dry and warm.|$a was soon wet through, but the eggs were not.}

{At sunset $b came hurrying home. "My eggs!" she cried.|As the sun went down, the rain stopped, and $b came back, out of breath.} {"All safe," said $a, and $a.his teeth chattered.|$a moved aside. Every egg was dry.}{ Tap, tap! At that very moment one of the shells cracked, and a tiny beak came out.| And then, crack! A tiny head came out of the first shell, and blinked at $a.} {"You were here," said $b. "You stayed the whole time."|$b could hardly speak. "You missed $fun for us," she said.} {"A promise is a promise," said $a.|"This is better than any fair or race," said $a, and $a.he meant it.}

{When the little ones were bigger, they followed $a everywhere.|The babies grew fast, and they all called $a their uncle.} {And the next year, when $fun came round again, $a went with all of them in a long row behind $a.him.|The following summer, $a went to $fun at last, and $b's children went too, cheering loudest of all.}
""".replace("their uncle", "their uncle" if a.he == "he" else "their aunt").replace("$a.his teeth chattered", "$a.he shivered").replace("any fair or race", "any party"), ["promise", "$a.sp"] if r.random() < .6 else ["$b.sp", "eggs"])


@schema
def crab_shell(r):
    a, b = cast(r, "hermit crab", ["seal", "gull", "starfish", "puffin"])
    v = dict(a=a, b=b, bad=r.choice(["a tin can", "an old cup", "an old teapot"]))
    return story(r, v, "{The Crab Who Needed a Shell|$a's New Shell|Too Tight|A Shell for $a}", """
{"Ouch," said $a the hermit crab. "My shell is too tight."|$a the hermit crab had grown, and $a.his shell had not.|On a sandy beach lived a hermit crab named $a, whose shell had become much too small.} {It pinched $a.him when $a.he walked, and it pinched $a.him when $a.he slept.|Every step hurt a little.} {"I need a bigger one," $a.he said, and $a.he set out along the shore.|So at low tide $a.he went to look for a new one.}

{First $a.he tried $bad, but it was cold and it rattled.|Before long $a.he found $bad. It was roomy, but the wind whistled in it, and $a.he could not turn around.} {Then $a.he found a lovely pink shell, but a snail looked out of it. "Sorry," said $a.|Next $a.he tried a long pointed shell, but it was so heavy that $a.he could not lift it.} {By noon $a was hot and tired, and still in the old tight shell.|The sun climbed higher, and $a sat down in the shade of a rock and sighed.}

{$b the $b.sp was resting nearby.|"What is the matter?" asked somebody. It was $b, a~ $b.sp.} {$a told $b.him everything.|"Nothing fits me," said $a.} {"I saw a round brown shell in the rock pool," said $b. "But a bigger crab is living in it."|"I know of a nice round brown one," said $b. "It's in the pool over there, but a big crab is inside, and it does nothing but grumble that its home is too small."} {$a thought hard. "Then maybe that crab needs a new shell, too!" $a.he said.|"A big crab in a small shell?" said $a. "Then we have the same trouble!" And that gave $a.him an idea.}

{They went to the pool together, and $a told the big crab about a long, heavy shell farther down the beach, one that was much too big for $a.him.|At the pool, $a spoke to the big crab very politely. "There is a large, strong shell by the pier. It is too heavy for me, but it may be just right for you."} {The big crab tried it and laughed with joy. "It fits!"|It was perfect. The big crab walked up and down in it like a king.} {And then the round brown shell was free. $a slipped in. It was smooth and cool, and it did not pinch at all.|So $a got the round brown shell, and it felt as if it had been made for $a.him.} {But that was not the end. A tiny crab came out of the weeds and asked shyly, "May I have your old one?" "Of course," said $a.|Then $a looked at $a.his own old shell. A very little crab was looking at it, too. "Take it," said $a.}

{So that day everyone on the beach had a new home, and no one had to do without.|In the evening three happy crabs sat in a row and watched the waves with $b.} {"When one of us moves up," said $a, "there is room for the next."|"I looked for a shell for one," said $a, "and found homes for three."}
""", ["hermit crab", "shell"])


@schema
def firefly_light(r):
    a, b = cast(r, "firefly", ["ant", "beetle", "ladybug", "snail"])
    v = dict(a=a, b=b)
    return story(r, v, "{The Little Firefly|$a's Small Light|A Very Small Light|$a Lights the Way}", """
{On summer nights the fireflies danced over the meadow like stars.|"Shine!" said the fireflies, and all over the meadow the little lights went on.} {$a's light was the smallest of them all.|Only one light was so weak that you could hardly see it. It belonged to $a.} {$a.He tried holding $a.his breath, and $a.he tried thinking of the sun, but it did not get any brighter.|$a.He ate well, slept well and practised every day, but it stayed a tiny, pale dot.} {"What good is a light like mine?" $a.he said, and $a.he flew away to be alone.|The others did not tease $a.him, but $a was ashamed, and one night $a.he went off to hide in the garden.}

{In the long grass $a heard somebody sniffle.|Down by the wall, somebody was calling softly.} {It was a~ $b.sp called $b.|There sat $b, a young $b.sp, all alone.} {"I stayed out too late," said $b, "and now it is so dark that I can't find the path."|"I am lost," said $b, "and the moon has gone behind a cloud."} {"I will fetch my brothers and sisters," said $a. "They have strong lights."|$a looked back, but the other fireflies were far away.} {"Please don't leave me," said $b. "Can't you shine for me?"|"But you have a light," said $b. "Won't you show me the way?"}

{$a felt shy, but $a.he lit up as well as $a.he could.|"It is not much," said $a, and $a.he turned it on.} {A small glow fell on one blade of grass, then on one pebble, then on the edge of the path.|It was just enough to see one step ahead.} {"Oh!" said $b. "There is the path!"|"That is all I need," said $b. "I only take one step at a time."} {So $a flew low and slow, and $b came along behind.|They went on like that, a little light and a little traveller, past the lettuce and around the well.} {A bright light would have shone in $b's eyes, but this one was soft and friendly.|When $b grew tired, $a waited, and when $b was afraid, $a came closer.}

{At last they saw $b's home, and there was $b's mother at the door.|Then they heard a voice. "$b! Is that you?" It was $b's mother.} {"$a brought me home," said $b. "$a.He has the best light in the world."|"A star came down and showed me the way," $b told her.} {$a glowed with joy, and it may be that $a.he shone a bit brighter than before.|All the way back to the meadow, $a felt warm inside.} {That night $a danced with the others and did not hide.|$a never again asked what a small light was good for.} {In the dark, even the smallest light is a big one.|For somebody who is lost, a little light is enough.}
""", ["firefly"] if r.random() < .5 else ["firefly", "$b.sp"])


@schema
def rooster_sun(r):
    a, b = cast(r, "rooster", ["cow", "pig", "donkey", "sheep"], sexes=["m", "?"])
    v = dict(a=a, b=b)
    return story(r, v, "{The Rooster Who Woke the Sun|$a Loses His Voice|$a and the Sun|The Morning Without a Song}", """
{$a the rooster believed that the sun came up because he told it to.|"Without me," $a the rooster liked to say, "it would be night all day long."} {Every morning he stood on the roof and crowed, and every morning the sun came up.|Each day before dawn he flew up on the fence and shouted, "Cock-a-doodle-doo!" And sure enough, up came the sun.} {"You see?" he told the hens.|"You are welcome," he told everybody in the yard.} {$b the $b.sp only smiled and went on chewing.|The others were too polite to say anything, even $b the $b.sp.}

{One night $a caught a cold.|Then, one damp evening, $a got a sore throat.} {When he woke up and tried to crow, there was only a small squeak.|Before dawn he opened his beak, but no sound came out.} {"Oh no!" he whispered. "Now the sun will never rise!"|He was terrified. "It will stay dark for ever," he croaked, "and it is all my fault!"} {He ran to $b. "Quick, you must call the sun!" he said.|He hurried to wake $b. "Please help me call," he begged.} {$b called as loud as possible, but it did not sound at all like crowing, and the sky stayed grey.|$b did try, but the noise only woke up the ducks.} {"Come," said $b, "let us sit on the hill and see what happens."|"Sit down here with me," said $b, "and look over there."}

{They sat side by side. Slowly the sky turned pink.|They waited. First there was a thin line of gold behind the trees.} {Then, all by itself, up came the sun.|A moment later the sun rose, round and bright, just as it always had.} {$a stared. "But I did not crow," he said.|$a's beak fell open. "It did not wait for me," he said in a tiny voice.} {He felt very small. "Then nobody needs me."|His tail drooped. "So I am no use at all."}

{But down in the yard there was a great muddle.|Just then they heard shouts from the farm.} {The hens were still asleep, the farmer had burnt the toast in a rush, and the children had missed the school bus.|The farmer was running about with one boot on. "Why did nobody wake me?" he called. "I am late with the milk!"} {"You do not wake the sun," said $b kindly. "You wake us."|"You see?" said $b. "The sun can manage by itself. We can't."} {$a thought about it, and his tail went up again.|Slowly $a began to smile.}

{In a few days his voice was back.|As soon as his throat was better, he was up on the roof again.} {He crowed as loudly as ever, but he did not boast about the sun any more.|Now, when the sun comes up, he says, "Good morning," and thanks it for coming.} {"Good morning, everyone!" he calls, and the whole farm gets up, just in time.|It is a fine thing to be needed, even if you are not the one who moves the sky.}
""", ["rooster", "sun"] if r.random() < .6 else ["proud rooster"])


@schema
def caterpillar_change(r):
    a, b = cast(r, "caterpillar", ["snail", "beetle", "ant", "ladybug"])
    v = dict(a=a, b=b, col=r.choice(["orange", "blue", "yellow", "white"]), plant=r.choice(["cabbage", "nettle", "milkweed", "bean plant"]))
    return story(r, v, "{$a and $b in the Garden|The Friend Who Changed|The Caterpillar's Secret|Wait for Me}", """
{$a the caterpillar and $b the $b.sp were best friends.|In a garden, on a big green $plant, lived $a the caterpillar. $b the $b.sp lived just below.} {Every day they crept from leaf to leaf and talked about everything.|They ate breakfast together, took naps together, and watched the clouds go by.} {"Will we always be friends?" asked $b.|"Let's stay friends for ever," said $b one day.} {"Always," said $a, with a mouth full of leaf.|"Of course we will," said $a.}

{But at the end of the summer, $a began to feel strange.|Then one day $a stopped eating. This had never happened before.} {"I am so sleepy," $a.he said. "I think I have to make a bed."|"I must wrap myself in a blanket," said $a. "I don't know why. I just feel it."} {$a.He spun a little brown case around $a.himself, and then $a.he was quiet.|$a.He wrapped $a.himself up in a brown case, tighter and tighter, until $b could not see $a.him any more.} {$b knocked on the case. "$a? Are you there?" There was no answer.|"Come out and play," called $b, but nothing moved.}

{$b was worried, but $b.he stayed close by.|The others said, "Forget about $a. Come along with us." But $b would not.} {When it rained, $b pulled a leaf over the case.|On hot days $b kept it in the shade, and on windy days $b.he held the stem.} {In the evenings $b.he told it all the news of the garden, just in case $a could hear.|And each night $b.he said, "Sleep well. I'm still here."} {One week went by, and then another.|Many days passed in this way.}

{One bright morning, the case cracked open.|Then, early one day, there was a tiny tearing sound.} {Out came a creature that $b had never seen before. It had six thin legs and two wet, crumpled, $col wings.|Somebody climbed out, very slowly, and opened two big $col wings to the sun.} {It was a butterfly!|$b gasped. It was the loveliest butterfly in the world.} {$b moved back. "Excuse me," $b.he said shyly, "have you seen my friend $a?"|"Where is $a?" asked $b, and $b.his voice shook. "What happened to my friend?"} {The butterfly laughed, and $b knew that laugh. "It's me!"|"I am $a," said the butterfly. "I heard every word you told me while I slept."}

{"But now you can fly," said $b sadly. "You will go away."|$b was glad, and then $b.he was sad. "You won't want to creep about with me any more," $b.he said.} {"I will fly," said $a, "and then I will come back and tell you what I saw."|"I have new wings," said $a, "but I have the same heart."} {And so it was. Each day $a flew over the wall, and each evening $a.he sat down beside $b with a head full of stories.|From then on, it was $a who brought the news: the river, the hills, the red roofs of the town. And $b listened, happy and proud.} {Friends may change, but a friendship can stay.|"Always," said $a, just as $a.he had said before.}
""", ["caterpillar", "$b.sp"] if r.random() < .5 else ["caterpillar", "butterfly"])


@schema
def greedy_pig(r):
    a, b = cast(r, ["pig", "goat", "goose"], ["sheep", "donkey", "hen", "horse"])
    fr = r.choice(["apples", "pears", "plums", "peaches"])
    v = dict(a=a, b=b, fr=fr, one=fr[:-2] if fr == "peaches" else fr[:-1])
    return story(r, v, "{The Greedy $a.sp|Too Many $fr|$a and the $fr|One More Bite}".replace("$fr", fr.title()), """
{One September morning, the farmer left the orchard gate open.|In the orchard the $fr were ripe, and some had already fallen into the grass.} {$a the $a.sp was the first to find out.|$a the $a.sp squeezed through a gap in the fence, and $a.his eyes grew wide.} {"$Fr! Hundreds of them!" $a.he said, and $a.he began to eat.|There lay more $fr than $a.he could count.} {$b the $b.sp looked over the fence. "May I have one too?" $b.he asked.|Soon $b the $b.sp came by. "Those look good," $b.he said. "Could I have a few?"} {"They are all mine," said $a with a full mouth.|"No," said $a. "I was here first."}

{$a ate and ate.|All day long $a.he munched.} {$a.He did not stop for a drink, and $a.he did not stop to chew.|When $a.he could eat no more, $a.he gathered the rest into a big heap and lay down on top of it.} {In the evening $a wanted to go home, but when $a.he came to the gap in the fence, $a.he did not fit.|At sunset it was time to go home. But $a's tummy had become so round that $a.he got stuck in the gap.} {$a.He pushed and wriggled. It was no good.|"I will just breathe in," $a.he said. It did not help.} {"Help!" $a cried. "I'm stuck!"|"Oh dear, oh dear," moaned $a, and $a.his tummy hurt as well.}

{It was $b who came.|$b heard $a.him and came at once.} {$a turned red. "I would not blame you if you went away again," $a.he said.|"I was mean to you," said $a. "Why would you help me?"} {"Because you are stuck," said $b.|"That was this morning," said $b. "Now it is evening."} {$b pulled from the front, but $a did not move. So $b loosened the board beside the gap, little by little, until it swung to one side.|First $b tugged, and that only made it worse. Then $b pushed against the loose old board until it fell down with a bump.} {Out rolled $a, all the way down the bank and into a heap of straw.|Pop! $a was free.}

{"Thank you," said $a. "Now please, take as many $fr as you like. Take them all!"|$a lay there and groaned. "I don't ever want to see another $one," $a.he said. "You have the rest."} {"Let's share them with everyone," said $b.|"I only wanted one," said $b, laughing.} {So the next morning they carried the $fr into the yard, and each animal got the same number.|The following day they called all the animals together, and the heap was gone in no time.} {$a had only a single $one, and $a.he ate it slowly. It was the sweetest of them all.|And strange to say, the one $one that $a ate with $a.his friends tasted better than the hundred $a.he had eaten alone.}
""".replace("$Fr", fr.capitalize()), ["greedy $a.sp"] if r.random() < .5 else ["$a.sp", fr])


@schema
def echo_puppy(r):
    a, b = cast(r, ["puppy", "kitten", "lamb", "foal"], ["goat", "sheep", "horse", "donkey"])
    if a.sp == "lamb" and b.sp == "sheep":
        b.sp, b.the, b.The = "goat", "the goat", "The goat"
    v = dict(a=a, b=b, place=r.choice(["the old quarry", "the rocky valley", "the foot of the cliff"]))
    return story(r, v, "{The Voice in the Valley|$a and the Echo|Hello, Hello!|The $a.sp Who Shouted}", """
{One day a young $a.sp named $a went for a walk by $a.himself.|$a was a young $a.sp who had nobody to play with.} {$a.He came to $place, where $a.he had never been before.|$a.He walked past the last field, all the way to $place.} {"Hello!" $a shouted, just for fun.|It was very quiet there. "Hello?" called $a.} {"Hello!" came a voice from the rocks.|From the other side, a voice called the same word back.}

{$a jumped. "Who are you?" $a.he asked. "Are you!" said the voice.|"Who is there?" shouted $a. "Is there!" the voice shouted back.} {$a did not like that. "Don't copy me!" $a.he cried. "Copy me!" said the voice.|"Stop that!" said $a. "That!" said the voice.} {The angrier $a got, the angrier the voice became.|$a stamped and yelled, and the voice yelled just as loud.} {At last $a ran home with tears in $a.his eyes.|In the end $a turned around and ran all the way home.}

{"There is somebody horrible out there," $a told old $b the $b.sp.|In the yard $a.he met $b, an old $b.sp. "Somebody was rude to me!" $a.he said.} {$b listened to the whole story.|"Dear me," said $b, and $b.he let $a tell it all.} {"Was your own voice friendly?" $b asked.|"Were you polite to the voice?" asked $b.} {$a looked down. "Only at the beginning," $a.he said.|"Not very," said $a, after a moment.} {"Go back tomorrow," said $b, "and say something nice. Then see what happens."|"Then try again," said $b, "but this time, say only kind things."}

{The next morning $a went back. $a.His heart was thumping.|So on the following day $a stood before the rocks once more.} {"Good morning!" $a.he called. "Morning!" answered the voice.|"I am sorry!" $a called. "Sorry!" said the voice, quite softly.} {"You are my friend!" shouted $a. "My friend!" said the voice.|"I like you!" called $a. "Like you!" the voice called back.} {$a laughed, and the whole valley laughed along.|$a began to giggle, and giggles came back from every side.}

{"It was only me, all the time!" $a told $b that evening.|Back home, $a had worked it out. "It's my own voice, isn't it?" $a.he asked $b.} {"That is called an echo," said $b. "And the world is a bit like that. What you call out often comes back."|$b nodded. "It is an echo. And it works with others, too. If you are kind, you will hear kind words."} {The day after, $a went up to the ducks on the pond, who had never played with $a.him, and said, "Good morning!"|$a thought about it, and then $a.he walked over to the chicks by the barn. "Hello," $a.he said. "I like your game."} {"Good morning!" they answered. "Do you want to play?" And this time it was not an echo.|They looked up and smiled. "Hello yourself," they said. "Come and join in!"}
""", ["$a.sp", "echo"])
